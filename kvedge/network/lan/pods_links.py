"""Which links of a node lead to its Pods, so that no guest is put there: it would be heard under any Pod's address.

Pure; `node_lans` asks here before it joins a Pod to a network.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvedge.network.binding.binding_state import names_for
from kvedge.network.link_types import Link
from kvedge.network.pods.attachments import POD_INTERFACE

# By so many letters CNI plugins tell their ends of Pods' pairs from other links: cali, lxc, veth, eni.
_LETTERS: Final = 3


def find_pods_reason(inside: Iterable[Link], host: Iterable[Link], name: str) -> str:
    """Why the link of this name is the Pods'; empty when it is not. `inside` are the links of a Pod of this node.

    A node that is itself a container has its NIC by a pair, too: such a NIC is called otherwise than the Pods' ends.
    """
    by_index = {link.index: link for link in host}
    wanted = next((link for link in by_index.values() if link.name == name), None)
    # A bound NIC has another name, and what stands in for it has no pair.
    own = {POD_INTERFACE, names_for(POD_INTERFACE, 0).nic}
    for nic in inside:
        end = by_index.get(nic.peer_index) if nic.kind == "veth" and nic.name in own else None
        if end is None or end.kind != "veth" or wanted is None:
            continue
        if wanted.index == end.master:
            return "the Pods of this node are on it"
        if wanted.index == end.index or _is_like(wanted, end, by_index):
            return "it leads to a Pod of this node"
    return ""


def _is_like(wanted: Link, end: Link, by_index: dict[int, Link]) -> bool:
    """Whether it is another Pod's end of a pair: its peer is elsewhere, and the same plugin has named it."""
    if wanted.kind != "veth" or wanted.name[:_LETTERS] != end.name[:_LETTERS]:
        return False
    peer = by_index.get(wanted.peer_index)
    return peer is None or peer.peer_index != wanted.index
