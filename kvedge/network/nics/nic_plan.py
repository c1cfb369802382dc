"""Which steps move what a NIC carries over to a bridge of it, and which move it back.

Pure. Both lists may be begun anew wherever an earlier one was cut short: no step minds that it is done already.

The order keeps the host reachable. The bridge has the NIC's MAC, so that no neighbour has anything to learn, and it has
the addresses before the NIC becomes its port: from that step on frames come in by the bridge, which answers for them.
What is sent still leaves by the NIC until each route has been replaced in one message, and the NIC's own addresses go
last. The way back is the same in reverse. Connections stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from kvedge.network.link_types import Link
from kvedge.network.nics.nic_rules import Carried
from kvedge.network.nics.nic_state import KeptAddress, KeptRoute, NicRecord
from kvedge.network.nics.nic_steps import GiveAddress, LeadRoute, NicStep, ReleasePort, TakeAddress
from kvedge.network.pods.forwarding_plan import MARK
from kvedge.network.steps import AddBridge, DeleteLink, SetLink, SetSysctl

# The settings that a bridge takes over from its NIC. The last one is of the NIC alone while it is a port.
SETTINGS: Final = (
    "ipv4/forwarding",
    "ipv4/rp_filter",
    "ipv4/arp_ignore",
    "ipv4/arp_announce",
    "ipv4/accept_redirects",
    "ipv4/proxy_arp",
    "ipv4/route_localnet",
    "ipv6/forwarding",
    "ipv6/accept_ra",
    "ipv6/autoconf",
    "ipv6/use_tempaddr",
    "ipv6/addr_gen_mode",
)
NO_IPV6: Final = "ipv6/disable_ipv6"
_NIC_BRIDGE: Final = f"{MARK} nic-bridge "


class NicLinks(Struct, frozen=True):
    """The NIC and its bridge as they are; None for one that is not there. `guests`: the bridge's other ports."""

    nic: Link | None
    bridge: Link | None
    guests: tuple[str, ...] = ()

    @property
    def joined(self) -> bool:
        """Whether the NIC is a port of the bridge."""
        return self.nic is not None and self.bridge is not None and self.nic.master == self.bridge.index


def nic_alias(nic: str) -> str:
    """What is written on a bridge that kvedge made of a NIC."""
    return f"{_NIC_BRIDGE}{nic}"


def is_nic_bridge(link: Link) -> bool:
    """Whether kvedge made it of a NIC; such a bridge lasts."""
    return link.kind == "bridge" and link.alias.startswith(_NIC_BRIDGE)


def nic_of_bridge(link: Link) -> str:
    """The NIC of such a bridge."""
    return link.alias.removeprefix(_NIC_BRIDGE)


def is_bridge_of(record: NicRecord, link: Link) -> bool:
    """Whether kvedge made it; the NIC's MAC tells of a bridge that was cut short before its alias."""
    cut_short = not link.alias and link.mac == record.mac
    return link.kind == "bridge" and (link.alias == nic_alias(record.nic) or cut_short)


def setting_path(link: str, name: str) -> str:
    """Where a setting of one link lies."""
    family, _, rest = name.partition("/")
    return f"{family}/conf/{link}/{rest}"


def plan_over(record: NicRecord, seen: NicLinks) -> Iterator[NicStep]:
    """From the NIC to the bridge."""
    bridge, nic = record.bridge, record.nic
    if seen.bridge is None:
        yield AddBridge(bridge, record.mac, record.mtu)
    yield SetLink(bridge, alias=nic_alias(nic))
    for name in SETTINGS:
        if name in record.settings:
            yield SetSysctl(setting_path(bridge, name), record.settings[name])
    yield SetLink(bridge, up=True)
    for address in record.addresses:
        yield GiveAddress(bridge, address)
    yield SetLink(nic, master=bridge)
    for route in record.routes:
        yield LeadRoute(bridge, route)
    # The first of a subnet takes the others with it where the kernel promotes none.
    for address in reversed(record.addresses):
        yield TakeAddress(nic, address)
    if NO_IPV6 in record.settings:
        # The advertisements of the LAN's routers are for the bridge.
        yield SetSysctl(setting_path(nic, NO_IPV6), "1")


def is_over(record: NicRecord, bridge: Carried, nic: Iterable[KeptAddress]) -> bool:
    """Whether a bridge that its NIC is a port of has what the NIC carried, and the NIC has none of it any more."""
    wanted, there = _places(record.addresses), _places(bridge.addresses)
    ways = set(map(_route_key, record.routes)) <= set(map(_route_key, bridge.routes))
    return ways and wanted <= there and not wanted & _places(nic)


def _places(addresses: Iterable[KeptAddress]) -> set[tuple[str, int]]:
    return {(each.address, each.prefix_length) for each in addresses}


def _route_key(route: KeptRoute) -> tuple[str, str, int, int]:
    """By what the kernel tells one route from another, and where it leads."""
    return route.destination, route.gateway, route.table, route.metric


def plan_back(record: NicRecord, seen: NicLinks, *, keeps_bridge: bool = False) -> Iterator[NicStep]:
    """From the bridge to the NIC; the bridge ends, or is kept for its guests without the host's addresses."""
    nic = record.nic
    if seen.nic is not None:
        if NO_IPV6 in record.settings:
            yield SetSysctl(setting_path(nic, NO_IPV6), record.settings[NO_IPV6])
        for address in record.addresses:
            yield GiveAddress(nic, address)
        for route in record.routes:
            yield LeadRoute(nic, route)
        if seen.joined:
            yield ReleasePort(nic)
    if seen.bridge is not None and is_bridge_of(record, seen.bridge):
        if not keeps_bridge:
            yield DeleteLink(record.bridge)
            return
        for address in reversed(record.addresses):
            yield TakeAddress(record.bridge, address)
