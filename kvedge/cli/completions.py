"""Names for a shell that completes a word: quick, or none at all.

Called by shell completion only. Asks the API server once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from kvedge.cli.sessions import open_session

# The user has pressed a key and waits.
_SECONDS: Final = 1.0
_MOST: Final = "500"


def names_of(
    ctx: click.Context,
    resource: str,
    group: str = "/apis/kubevirt.io/v1",
    where: Callable[[Any], bool] = lambda item: True,
) -> list[str]:
    """The names of a resource in the namespace that has been typed; none when anything goes wrong."""
    try:
        named = ctx.params.get("kubeconfig")
        session = open_session(Path(named) if named else None, ctx.params.get("namespace"))
        path = f"{group}/namespaces/{session.namespace}/{resource}"
        answer = session.client.hurry(_SECONDS).request("GET", path, query={"limit": _MOST})
        return sorted(str(item["metadata"]["name"]) for item in answer["items"] if where(item))
    except Exception:  # noqa: BLE001 - a shell that completes a word has no place for errors, whatever they are
        return []
