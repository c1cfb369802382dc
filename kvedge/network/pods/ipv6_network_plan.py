"""What the second, IPv6 network of one box adds to the bridge and inside of Pods. Pure; `pod_network_plan` asks here.

The bridge has the first address of the range, and `fe80::1`, by which guests know their router: a name that does not
change with the bridge's MAC, and that the ports' table can keep for the bridge alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv6Network
from typing import Final

from kvedge.network.address_plan import ipv6_gateway
from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU
from kvedge.network.binding.port_rules import ROUTER
from kvedge.network.errors import NetworkError, OverlapError
from kvedge.network.node_seen import NodeSeen
from kvedge.network.steps import AddAddress, SetSysctl, Step

_REMEDY: Final = "or take the IPv6 network out of --pod-cidr"
_LINK_LENGTH: Final = 64
# No link-local address of the kernel's making (addr_gen_mode).
_NONE_BY_ITSELF: Final = "1"
# A default route in two pieces, as VPNs have it, is wider than any range.
_LONGEST_DEFAULT: Final = 3


def check_overlap(bridge: str, cidr: str, seen: NodeSeen) -> None:
    """Raises OverlapError when the host uses addresses of the range elsewhere than on its bridge.

    Not for a route that is wider: it takes no packet from the bridge's own, which is longer.
    """
    wanted, names = IPv6Network(cidr), {link.index: link.name for link in seen.links}
    used = [(f"{each.address}/{each.prefix_length}", each.link, True) for each in seen.addresses if each.version == 6]
    used += [(route.destination, route.link, False) for route in seen.of_ipv6.routes]
    for text, index, is_address in used:
        network, name = IPv6Network(text, strict=False), names.get(index, "several links")
        longer = is_address or network.prefixlen >= wanted.prefixlen
        if name != bridge and longer and network.prefixlen > _LONGEST_DEFAULT and network.overlaps(wanted):
            raise OverlapError(
                f"--pod-cidr {cidr} overlaps",
                subject=f"{network} of {name}",
                remedy="give an IPv6 network that the site's router leads to this host, or one of fd00::/8",
            )


def bridge_steps(bridge: str, cidr: str, mtu: int, seen: NodeSeen) -> Iterator[Step]:
    """What makes the bridge the router of its guests. Raises NetworkError where there can be no IPv6."""
    if not seen.ipv6:
        raise NetworkError(
            "there is no IPv6 on this host", subject=cidr, remedy=f"have the kernel's IPv6 enabled, {_REMEDY}"
        )
    if mtu < SMALLEST_IPV6_MTU:
        raise NetworkError(
            "IPv6 needs an MTU of 1280", subject=f"{bridge} with {mtu}", remedy=f"raise that of the uplink, {_REMEDY}"
        )
    settings = {
        "addr_gen_mode": _NONE_BY_ITSELF,
        # Guests are told of their router by their launchers; nobody tells the bridge anything.
        "accept_ra": "0",
        "accept_dad": "0",
        "disable_ipv6": "0",
    }
    for name, value in settings.items():
        yield SetSysctl(f"ipv6/conf/{bridge}/{name}", value)
    link = seen.link(bridge)
    has = {(each.address, each.prefix_length) for each in seen.addresses if link and each.link == link.index}
    for address, length in ((ipv6_gateway(cidr), IPv6Network(cidr).prefixlen), (ROUTER, _LINK_LENGTH)):
        if (address, length) not in has:
            yield AddAddress(bridge, address, length)


def inside_steps(cidr: str, address: str, present: Collection[str]) -> Iterator[Step]:
    """The Pod's own side. No other can have the address, so the check for duplicates is left out; it takes a second."""
    for name, value in {"accept_dad": "0", "accept_ra": "0", "disable_ipv6": "0"}.items():
        yield SetSysctl(f"ipv6/conf/eth0/{name}", value)
    if address not in present:
        yield AddAddress("eth0", address, IPv6Network(cidr).prefixlen)
