"""Which namespace a binding works in, and that it is a Pod's and not the node's own; and what is seen in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Address, Link
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, identify_netns, netns_subject, run_in_netns
from kvedge.runtime.linux.boot import BOOT_ID, read_boot_id

T = TypeVar("T")
OWN_NETNS: Final = Path("/proc/thread-self/ns/net")


def pod_namespace(netns: NetnsRef) -> str:
    """What tells this Pod's namespace from all others that are and were. Raises NetworkError for the node's own."""
    identity = identify_netns(netns)
    if identity == identify_netns(OWN_NETNS):
        # A deceived caller must not get here either: a node that loses its own network is lost.
        raise NetworkError(
            "cannot bind", subject=netns_subject(netns), why="this is no Pod's network but the node's own"
        )
    try:
        return f"{read_boot_id()}/{identity}"
    except OSError as error:
        raise NetworkError("cannot read", subject=BOOT_ID, errno=error.errno or 0) from error


def look_into_pod(netns: NetnsRef, find: Callable[[Sequence[Link], Sequence[Address]], T]) -> T:
    """What `find` makes of a Pod's links and addresses. Raises NetworkError, and what `find` raises."""
    pod_namespace(netns)

    def look() -> T:
        with Links() as links:
            return find(links.list_links(), links.list_addresses())

    return run_in_netns(netns, look)
