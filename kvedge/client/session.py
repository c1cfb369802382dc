"""A client of one API server, how it is connected, and the namespace in which it works.

Opened by the command line; whatever else talks to a server for a person may make its own. What talks to servers is
Opened by the command line; other tools may open their own. Libraries that talk to servers are imported only when a
session is opened, so that help costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from kvedge.client.errors import UsageError
from kvedge.client.kubeconfigs import FoundKubeconfig

if TYPE_CHECKING:
    from kvedge.kube.credentials.connection_settings import Connection
    from kvedge.kube.kube_client import KubeClient

# No name of an object may have these; in a path they would mean something else.
_NOT_IN_NAMES = frozenset("/%?#\\ \t\n")


class Session(Struct, frozen=True):
    """A client, how it is connected, and the namespace that counts when none is named."""

    client: KubeClient
    connection: Connection
    kubeconfig: FoundKubeconfig
    namespace: str


def connect(
    found: FoundKubeconfig, namespace: str | None = None, on_warning: Callable[[str], None] | None = None
) -> Session:
    """A session with the server that a kubeconfig leads to; nothing is asked yet.

    Args:
        found: the kubeconfig.
        namespace: the one to work in; the kubeconfig's when it is None or empty.
        on_warning: gets what the server says beside its answers.

    Raises:
        UsageError: for a namespace that there cannot be.
        KubeconfigError: when the kubeconfig does not hold together.
    """
    from kvedge.kube.credentials.connection_settings import from_document
    from kvedge.kube.kube_client import KubeClient
    from kvedge.kube.rest_edge import RestEdge

    connection = from_document(found.document, found.paths[0])
    place = check_name(namespace or found.namespace, "namespace")
    return Session(KubeClient(RestEdge(connection, on_warning=on_warning)), connection, found, place)


def check_name(name: str, what: str = "name") -> str:
    """A name that can stand in a path.

    Raises:
        UsageError: for one that no object can have.
    """
    bad = sorted(_NOT_IN_NAMES & set(name))
    if not name or bad or name in (".", "..") or not name.isascii():
        why = f"may not have {bad[0]!r} in it" if bad else "is not a name of an object"
        raise UsageError(f"{what} {name!r}: {why}")
    return name
