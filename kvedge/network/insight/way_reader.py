"""Reads the way of a guest's packets: the links of its Pod's namespace, and those of the node.

Called by the handler, as root on the host. Reads only; `packet_way` makes the way of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

from kvedge.network.binding.binding_state import names_for
from kvedge.network.drop_rules import DROPPED, Dropped, drops_by_link
from kvedge.network.errors import NotSupportedError
from kvedge.network.insight.packet_way import NODE, POD, Hop, add_denied, add_filtered, way_in_pod, way_on_node
from kvedge.network.link_types import CountedLink
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, run_in_netns
from kvedge.network.nft.nft_edge import list_counts
from kvedge.network.nft.nft_tables import Family
from kvedge.network.policies.policy_rules import DENIED_IN, DENIED_OUT

_NO_ADDRESSES: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})


def read_ways(
    netns: NetnsRef, nics: Mapping[str, int], addresses: Mapping[str, Sequence[str]] = _NO_ADDRESSES
) -> dict[str, list[Hop]]:
    """The way of each of the Pod's NICs, by its name.

    `nics` has the place in the VMI of the interface on each, `addresses` what the Pod has there: by these policies know
    it. Raises NetworkError.
    """
    in_pod, dropped_in_pod = run_in_netns(netns, lambda: (_count_links(), _drops()))
    on_node = {each.link.index: each for each in _count_links()}
    dropped_on_node, denied = _drops(), _read_denied()
    ways = {}
    for nic, index in nics.items():
        hops = way_in_pod(names_for(nic, index), in_pod)
        hops = add_filtered([*hops, *way_on_node(hops[-1].link if hops else None, on_node)], POD, dropped_in_pod)
        of_nic = {
            f"{words}, {address}": count
            for address in addresses.get(nic, ())
            for words, count in denied.get(address, {}).items()
        }
        ways[nic] = add_denied(add_filtered(hops, NODE, dropped_on_node), of_nic)
    return ways


def _drops() -> dict[str, dict[str, Dropped]]:
    """What our filters of bridged frames have dropped in this namespace, by link and reason."""
    try:
        counts = list_counts(Family.BRIDGE, DROPPED.name)
    except NotSupportedError:
        # A kernel without such filters has none of ours.
        return {}
    return drops_by_link(element for elements in counts.values() for element in elements)


def _read_denied() -> dict[str, dict[str, Dropped]]:
    """What NetworkPolicies of this node have dropped, by the address of the Pod that they are about."""
    found: dict[str, dict[str, Dropped]] = {}
    for family in (Family.IP, Family.IP6):
        for counts, words in ((DENIED_OUT, "NetworkPolicies, egress"), (DENIED_IN, "NetworkPolicies, ingress")):
            for elements in list_counts(family, counts.name).values():
                for key, count in elements:
                    found.setdefault(str(ip_address(key)), {})[words] = count
    return found


def _count_links() -> list[CountedLink]:
    with Links() as links:
        return links.list_counted()
