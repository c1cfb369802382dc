"""Which API server a verb talks to, and in which namespace.

Called by the verbs. Reads the environment and looks for kubeconfigs. What talks to servers is imported only when a
session is opened, so that help costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.client.harmless_text import harmless
from kvedge.client.kubeconfigs import FoundKubeconfig, kubeconfig_paths, load_kubeconfigs

if TYPE_CHECKING:
    from kvedge.kube.connection_settings import Connection
    from kvedge.kube.kube_client import KubeClient

F = TypeVar("F", bound=Callable[..., Any])

# No name of an object may have these; in a path they would mean something else.
_NOT_IN_NAMES = frozenset("/%?#\\ \t\n")


@dataclass(frozen=True, slots=True)
class Session:
    """A client, how it is connected, and the namespace that counts when none is named."""

    client: KubeClient
    connection: Connection
    kubeconfig: FoundKubeconfig
    namespace: str


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
        Refused: when there is none, or it cannot be used.
    """
    found = find_kubeconfig(kubeconfig)
    from kvedge.kube.connection_settings import from_document
    from kvedge.kube.kube_client import KubeClient
    from kvedge.kube.rest_edge import RestEdge

    connection = from_document(found.document, found.paths[0])
    namespace = namespace or _before_verb("namespace") or found.namespace
    return Session(
        KubeClient(RestEdge(connection, on_warning=_warn)), connection, found, checked_name(namespace, "namespace")
    )


def find_kubeconfig(named: Path | None) -> FoundKubeconfig:
    """The kubeconfig of this call, read.

    Raises:
        Refused: when there is none, or it cannot be used.
    """
    return load_kubeconfigs(kubeconfig_paths(named_kubeconfig(named)), _before_verb("context"))


def named_kubeconfig(named: Path | None) -> str | Path | None:
    """The one that was named after the verb, or before it; None when none was."""
    return named or _before_verb("kubeconfig")


def checked_name(name: str, what: str = "name") -> str:
    """A name that can stand in a path.

    Raises:
        Refused: for one that no object can have.
    """
    bad = sorted(_NOT_IN_NAMES & set(name))
    if not name or bad or name in (".", "..") or not name.isascii():
        why = f"may not have {bad[0]!r} in it" if bad else "is not a name of an object"
        raise Refused(f"{what} {name!r}: {why}", Exit.USAGE)
    return name


def _warn(text: str) -> None:
    """What the server says beside its answer, as kubectl shows it."""
    click.echo(f"Warning: {harmless(text.encode(errors='replace'))}", err=True)


def _keep_context(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta["kvedge.context"] = value


def _before_verb(name: str) -> str | None:
    """What stood before the verb: `kvedge -n shop get vm`."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(f"kvedge.{name}")
