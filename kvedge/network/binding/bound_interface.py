"""What a bound Pod's network means for its guest: the NIC it is made of, and what the guest is told.

Pure. Made by `bridge_binding` from the record of how the CNI left the Pod; read by the handler.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_interface
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU, Names, Record
from kvedge.network.binding.bridge_binding_plan import bridge_mac
from kvedge.network.dhcp import dhcp_plan
from kvedge.network.link_types import PROTO_KERNEL, Address, Route

DEFAULT_ROUTE: Final = "0.0.0.0/0"
DEFAULT_IPV6_ROUTE: Final = "::/0"


class GuestIpv6(Struct, frozen=True, kw_only=True):
    """A guest's one IPv6 address, and the gateway (empty: none) that leads everywhere or, if not, to `routes` alone.

    `subnet` is empty where the neighbours of the address are not on the link.
    """

    address: str
    gateway: str = ""
    is_default: bool = True
    subnet: str = ""
    routes: tuple[str, ...] = ()


class BoundInterface(Struct, frozen=True, kw_only=True):
    """What a guest NIC is made of and what its guest is told. Without IPv4 the addresses are empty: no DHCP."""

    tap: str
    bridge: str
    mac: str
    mtu: int
    address: str = ""
    prefix_length: int = 0
    gateway: str = ""
    routes: tuple[dhcp_plan.Route, ...] = ()
    server: str = ""
    ipv6: GuestIpv6 | None = None
    bridge_mac: str = ""
    # Where the Pod's NIC leads: the index of a veth's end on the node, 0 for another kind.
    peer_index: int = 0
    # The addresses by which others reach the guest, where the Pod translates; empty where the guest itself has them.
    pod_addresses: tuple[str, ...] = ()
    # Sentences for the user: the parts of the Pod's network that the guest does not get, and why.
    shortfalls: tuple[str, ...] = ()


def make_bound_interface(record: Record, names: Names, guest_mac: str, peer_index: int = 0) -> BoundInterface:
    """What the record means for the guest."""
    address = record.ipv4
    found = BoundInterface(
        tap=names.tap,
        bridge=names.bridge,
        mac=guest_mac,
        mtu=record.guest_mtu,
        ipv6=_find_guest_ipv6(record),
        bridge_mac=bridge_mac(record.mac, names.bridge),
        peer_index=peer_index,
        shortfalls=tuple(_shortfalls(record)),
    )
    return found if address is None else _with_ipv4(found, record, address, names.server)


def make_unserved_interface(record: Record, names: Names, guest_mac: str) -> BoundInterface:
    """The same for a guest whose addresses are not ours to give; others know it by the Pod's, if by any."""
    return BoundInterface(
        tap=names.tap,
        bridge=names.bridge,
        mac=guest_mac,
        mtu=record.guest_mtu,
        pod_addresses=tuple(each.address for each in record.addresses),
        shortfalls=tuple(_cut_mtu(record)),
    )


def _with_ipv4(found: BoundInterface, record: Record, address: Address, server: str) -> BoundInterface:
    routes = [route for route in record.routes if ":" not in route.destination]
    gateway = _gateway(routes, DEFAULT_ROUTE)
    others = [route for route in routes if route.protocol != PROTO_KERNEL and route.destination != DEFAULT_ROUTE]
    if not gateway:
        # A default route without a gateway: everybody is on the link, or somebody there answers for everybody.
        others += [route for route in routes if route.destination == DEFAULT_ROUTE and not route.gateway]
    return replace(
        found,
        address=address.address,
        # With its subnet's length the guest would look for neighbours that only the gateway leads to.
        prefix_length=address.prefix_length if record.is_on_link(address) else 32,
        gateway=gateway,
        routes=tuple(dhcp_plan.Route(each.destination, each.gateway or dhcp_plan.ON_LINK) for each in others),
        server=server,
    )


def _find_guest_ipv6(record: Record) -> GuestIpv6 | None:
    address = record.ipv6
    if address is None:
        return None
    routes = [route for route in record.routes if ":" in route.destination]
    default = _gateway(routes, DEFAULT_IPV6_ROUTE)
    gateway = default or next((route.gateway for route in routes if route.gateway), "")
    return GuestIpv6(
        address=address.address,
        gateway=gateway,
        is_default=bool(default),
        subnet=_subnet(address) if record.is_on_link(address) else "",
        routes=tuple(
            route.destination
            for route in routes
            if route.gateway and route.gateway == gateway and route.destination != DEFAULT_IPV6_ROUTE
        ),
    )


def _gateway(routes: list[Route], destination: str) -> str:
    defaults = [route for route in routes if route.destination == destination and route.gateway]
    return min(defaults, key=lambda route: route.metric).gateway if defaults else ""


def _subnet(address: Address) -> str:
    return str(ip_interface(f"{address.address}/{address.prefix_length}").network)


def _shortfalls(record: Record) -> Iterator[str]:
    if not record.addresses:
        yield f"the CNI gave the Pod's {record.name} no address: nobody answers the guest's DHCP"
    for version in (4, 6):
        given = [each.address for each in record.addresses if each.version == version and not each.dynamic]
        if len(given) > 1:
            yield (
                f"the Pod's {record.name} has {len(given)} IPv{version} addresses: the guest gets {given[0]} alone, "
                f"nobody answers for {', '.join(given[1:])}"
            )
    if record.mtu < SMALLEST_IPV6_MTU and any(each.version == 6 for each in record.addresses):
        yield f"the guest gets no IPv6: the MTU of the Pod's {record.name} is {record.mtu}, IPv6 needs 1280"
    yield from _cut_mtu(record)


def _cut_mtu(record: Record) -> Iterator[str]:
    if record.mtu > record.guest_mtu:
        yield f"the guest's MTU is {record.guest_mtu}, the largest of a tap: the Pod's {record.name} has {record.mtu}"
