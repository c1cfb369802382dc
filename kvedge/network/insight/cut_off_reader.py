"""Looks whether guests' NICs still lead to their networks: the links of the node, and of a Pod's namespace.

Called by the handler, as root on the host. Reads only; `cut_off` judges.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from kvedge.network.binding.binding_state import names_for
from kvedge.network.insight.cut_off import NicSeen, judge_nic
from kvedge.network.link_types import Link
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, run_in_netns

# All guests of a node are looked at by one list of its links, as long as it is this young.
_FRESH_SECONDS: Final = 3.0
_NOTHING: Final = NicSeen()


def ends_of(netns: NetnsRef, nics: Mapping[str, int]) -> dict[str, int]:
    """The index on the node of the other end of each of a Pod's NICs, by the NIC's name; a NIC of another kind than a
    veth has none. `nics` has the place in the VMI of the interface on each.

    Raises NetworkError.
    """
    found = {link.name: link for link in run_in_netns(netns, _list_links)}
    ends = {}
    for nic, index in nics.items():
        link = found.get(names_for(nic, index).nic) or found.get(nic)
        if link is not None and link.kind == "veth" and link.peer_index:
            ends[nic] = link.peer_index
    return ends


class NodeLinks:
    """The links of this node, listed once for all guests that are looked at about the same time; for any thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """None yet."""
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._links: Mapping[int, Link] = MappingProxyType({})
        self._at = float("-inf")

    def judge(self, ends: Mapping[str, int], before: Mapping[str, NicSeen]) -> dict[str, NicSeen]:
        """What is seen of these NICs now, by their names. Raises NetworkError."""
        if not ends:
            return {}
        links = self._read_fresh()
        return {nic: judge_nic(end, before.get(nic, _NOTHING), links) for nic, end in ends.items()}

    def _read_fresh(self) -> Mapping[int, Link]:
        with self._lock:
            if self._monotonic() - self._at >= _FRESH_SECONDS:
                self._links = {link.index: link for link in _list_links()}
                self._at = self._monotonic()
            return self._links


def _list_links() -> list[Link]:
    with Links() as links:
        return links.list_links()
