"""The session of a verb: its options, what stood before the verb, and the server's warnings on standard error.

Called by the verbs. Reads the environment and looks for kubeconfigs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kvedge.client.harmless_text import harmless
from kvedge.client.kubeconfigs import FoundKubeconfig, kubeconfig_paths, load_kubeconfigs
from kvedge.client.session import Session, connect

F = TypeVar("F", bound=Callable[..., Any])


def session_options(function: F) -> F:
    """The options that every verb with an API server has; all but `--context` are handed to the verb."""
    options = [
        click.option("--kubeconfig", type=click.Path(path_type=Path), default=None, help="The kubeconfig to use."),
        click.option("--context", callback=_keep_context, expose_value=False, help="The kubeconfig's context to use."),
        click.option("-n", "--namespace", default=None, help="The namespace; the kubeconfig's otherwise."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def open_session(kubeconfig: Path | None, namespace: str | None) -> Session:
    """A session for the kubeconfig that was named, else for the first one there is.

    Raises:
        UsageError: when there is none, or it cannot be used.
    """
    return connect(find_kubeconfig(kubeconfig), namespace or _before_verb("namespace"), warn)


def find_kubeconfig(named: Path | None) -> FoundKubeconfig:
    """The kubeconfig of this call, read.

    Raises:
        UsageError: when there is none, or it cannot be used.
    """
    return load_kubeconfigs(kubeconfig_paths(find_named_kubeconfig(named)), _before_verb("context"))


def find_named_kubeconfig(named: Path | None) -> str | Path | None:
    """The one that was named after the verb, or before it; None when none was."""
    return named or _before_verb("kubeconfig")


def warn(text: str) -> None:
    """What the server says beside its answer, as kubectl shows it."""
    click.echo(f"Warning: {harmless(text.encode(errors='replace'))}", err=True)


def _keep_context(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta["kvedge.context"] = value


def _before_verb(name: str) -> str | None:
    """What stood before the verb: `kvedge -n shop get vm`."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(f"kvedge.{name}")
