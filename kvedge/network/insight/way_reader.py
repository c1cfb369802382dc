"""Reads the way of a guest's packets: the links of its Pod's namespace, and those of the node.

Called by the handler, as root on the host. Reads only; `packet_way` makes the way of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvedge.network.binding.binding_state import names_for
from kvedge.network.insight.packet_way import Hop, way_in_pod, way_on_node
from kvedge.network.link_types import CountedLink
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, run_in_netns


def read_ways(netns: NetnsRef, nics: Mapping[str, int]) -> dict[str, list[Hop]]:
    """The way of each of the Pod's NICs, by its name; `nics` has the place in the VMI of the interface on each.

    Raises NetworkError.
    """
    in_pod = run_in_netns(netns, _count_links)
    on_node = {each.link.index: each for each in _count_links()}
    ways = {}
    for nic, index in nics.items():
        hops = way_in_pod(names_for(nic, index), in_pod)
        ways[nic] = [*hops, *way_on_node(hops[-1].link if hops else None, on_node)]
    return ways


def _count_links() -> list[CountedLink]:
    with Links() as links:
        return links.list_counted()
