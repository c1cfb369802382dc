"""Which namespace a binding works in, and that it is a Pod's and not the node's own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvedge.network.errors import NetworkError
from kvedge.network.netns import NetnsRef, netns_identity, netns_subject

OWN_NETNS: Final = Path("/proc/thread-self/ns/net")
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def pod_namespace(netns: NetnsRef) -> str:
    """What tells this Pod's namespace from all others that are and were. Raises NetworkError for the node's own."""
    identity = netns_identity(netns)
    if identity == netns_identity(OWN_NETNS):
        # Whatever the caller was deceived by: a node that loses its own network is lost.
        raise NetworkError(
            "cannot bind", subject=netns_subject(netns), why="this is no Pod's network but the node's own"
        )
    try:
        return f"{BOOT_ID.read_text().strip()}/{identity}"
    except OSError as error:
        raise NetworkError("cannot read", subject=str(BOOT_ID), errno=error.errno or 0) from error
