"""The way of a packet between a guest and the world, link by link, with what each has counted.

Called by `way_reader` with the links of the Pod's namespace and of the node. Pure. A link counts what it receives and
sends; here that is told as what came from the guest and what went to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.network.binding.binding_state import Names
from kvedge.network.binding.macvtap_rules import MACVTAP
from kvedge.network.drop_rules import Dropped
from kvedge.network.link_types import CountedLink, Link, Traffic
from kvedge.resources.codec import JsonObject

POD: Final = "pod"
NODE: Final = "node"
# Ports of a node's bridge that are other guests', or other Pods'.
_NO_UPLINK: Final = frozenset({"veth", "tun"})
_MOST_UPLINKS: Final = 8


class Hop(Struct, frozen=True):
    """One link of the way; a bridge itself counts only what is for its own namespace, which is nothing of the guest."""

    where: str
    link: Link
    from_guest: Traffic | None = None
    to_guest: Traffic | None = None
    # The frames that our filters have dropped there, by the reason in words.
    filtered: Mapping[str, Dropped] = field(default_factory=dict)

    def document(self) -> JsonObject:
        """As users get it."""
        link = self.link
        shown: JsonObject = {
            "where": self.where,
            "name": link.name,
            "kind": link.kind or "physical",
            "up": link.up,
            "carrier": link.carrier,
            "mtu": link.mtu,
        }
        for key, traffic in (("fromGuest", self.from_guest), ("toGuest", self.to_guest)):
            if traffic is not None:
                shown[key] = {
                    "packets": traffic.packets,
                    "bytes": traffic.bytes,
                    "dropped": traffic.dropped,
                    "errors": traffic.errors,
                    **({"missed": traffic.missed} if traffic.missed else {}),
                    **({"queueDropped": traffic.queue_dropped} if traffic.queue_dropped else {}),
                }
        if self.filtered:
            shown["filtered"] = [
                {"what": words, "packets": count.packets, "bytes": count.bytes}
                for words, count in sorted(self.filtered.items())
            ]
        return shown


def add_filtered(hops: Iterable[Hop], where: str, drops: Mapping[str, Mapping[str, Dropped]]) -> list[Hop]:
    """The way with what the filters there have dropped at its links, by the links' names."""
    return [
        replace(hop, filtered=drops[hop.link.name]) if hop.where == where and hop.link.name in drops else hop
        for hop in hops
    ]


def add_denied(hops: Iterable[Hop], denied: Mapping[str, Dropped]) -> list[Hop]:
    """The way with what NetworkPolicies have dropped of the guest's packets, told at the node's bridge."""
    return [
        replace(hop, filtered={**hop.filtered, **denied})
        if denied and hop.where == NODE and hop.link.kind == "bridge"
        else hop
        for hop in hops
    ]


def way_in_pod(names: Names, links: Sequence[CountedLink]) -> list[Hop]:
    """From the guest's tap to the Pod's NIC; links that are not there are left out."""
    by_name = {each.link.name: each for each in links}
    tap, bridge = by_name.get(names.tap), by_name.get(names.bridge)
    # A translated NIC keeps its name; that of a bound one is a stand-in's.
    nic = by_name.get(names.nic) or by_name.get(names.pod)
    hops = []
    if tap is not None:
        hops.append(Hop(POD, tap.link, from_guest=tap.received, to_guest=tap.sent))
    if bridge is not None:
        hops.append(Hop(POD, bridge.link))
    if nic is not None:
        hops.append(Hop(POD, nic.link, from_guest=nic.sent, to_guest=nic.received))
    return hops


def way_on_node(nic: Link | None, links: Mapping[int, CountedLink]) -> list[Hop]:
    """From the node's end of the Pod's veth to the uplinks of its bridge, or the NIC that a macvtap is on.

    Nothing for a NIC of another kind.
    """
    if nic is not None and nic.kind == MACVTAP:
        lower = links.get(nic.lower)
        return [Hop(NODE, lower.link, from_guest=lower.sent, to_guest=lower.received)] if lower is not None else []
    end = links.get(nic.peer_index) if nic is not None and nic.kind == "veth" and nic.peer_index else None
    if end is None or end.link.kind != "veth":
        return []
    hops = [Hop(NODE, end.link, from_guest=end.received, to_guest=end.sent)]
    bridge = links.get(end.link.master)
    if bridge is None:
        return hops
    return [*hops, Hop(NODE, bridge.link), *_uplinks(bridge.link, links)]


def uplinks_of(bridge: Link, links: Iterable[Link]) -> list[Link]:
    """The ports of a node's bridge by which it leads elsewhere, by name."""
    found = [link for link in links if link.master == bridge.index and link.kind not in _NO_UPLINK]
    return sorted(found, key=lambda link: link.name)[:_MOST_UPLINKS]


def _uplinks(bridge: Link, links: Mapping[int, CountedLink]) -> Iterator[Hop]:
    for link in uplinks_of(bridge, [each.link for each in links.values()]):
        counted = links[link.index]
        yield Hop(NODE, link, from_guest=counted.sent, to_guest=counted.received)
