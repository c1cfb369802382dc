"""Which addresses of the pool stand on which link of the host, so that the LAN's hosts find them there; and what of the
host or its network a pool must not have. Pure.

`pool_addresses` looks, asks here, and does. Only addresses that carry the mark of this box are ever taken off.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping
from ipaddress import ip_address, ip_interface, ip_network

from msgspec import Struct

from kvedge.network.errors import OverlapError
from kvedge.network.link_types import FIRST_ADDRESS_MARK, MAIN_TABLE, Address, Link, Route
from kvedge.network.steps import AddSideAddress, RemoveAddress, Step
from kvedge.runtime.address_pool import AddressPool

_REMEDY = "give load-balancer-pool addresses that nobody else has"
_MARKS = 192
_DEFAULTS = {4: "0.0.0.0/0", 6: "::/0"}


class HostSeen(Struct, frozen=True):
    """The host's links, with the addresses and routes of both versions of IP."""

    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]


def address_mark(bridge: str) -> int:
    """The maker of an address, as a number that the kernel keeps with it: the box of this node bridge."""
    return FIRST_ADDRESS_MARK + zlib.crc32(bridge.encode()) % _MARKS


def own_addresses(bridge: str, seen: HostSeen) -> list[Address]:
    """The host's addresses that this box does not look after."""
    return [each for each in seen.addresses if each.protocol != address_mark(bridge)]


def addresses_of_nobody(bridge: str, seen: HostSeen) -> frozenset[str]:
    """What the pool gives to no Service, although it may have it.

    That is what the host has by itself, and the first address of each of its networks of IPv6: every router of a
    network answers there, this host as well. In a network of two addresses it is a host's as any other.
    """
    own = own_addresses(bridge, seen)
    networks = [ip_interface(f"{each.address}/{each.prefix_length}").network for each in own if each.version == 6]
    anycasts = {str(network.network_address) for network in networks if network.prefixlen < 127}
    return frozenset(anycasts | {each.address for each in own})


def check_pool(pool: AddressPool, bridge: str, seen: HostSeen) -> None:
    """Raises OverlapError when the pool has an address that the host or its network needs itself."""
    if not pool:
        return
    names = {link.index: link.name for link in seen.links}
    for each in own_addresses(bridge, seen):
        at = ip_interface(f"{each.address}/{each.prefix_length}")
        needed = {at.ip: f"{each.address} of {names.get(each.link, 'a link')}"}
        # A host with a network of its own gives nobody the network's first address, nor the last one.
        if each.version == 4 and each.prefix_length < 31:
            ends = (at.network.network_address, at.network.broadcast_address)
            needed |= {end: f"{end}, an end of the network {at.network}" for end in ends}
        for address, words in needed.items():
            if address in pool:
                raise OverlapError("load-balancer-pool has", subject=words, remedy=_REMEDY)
    for route in seen.routes:
        if route.gateway and ip_address(route.gateway) in pool:
            words = f"{route.gateway}, this host's router"
            raise OverlapError("load-balancer-pool has", subject=words, remedy=_REMEDY)


def uplinks(wanted: Collection[str], bridge: str, seen: HostSeen) -> dict[str, str]:
    """The link of each address: the one that is in its network, else the one to the router, which leads it here.

    An address that no link leads to has none.
    """
    names = {link.index: link.name for link in seen.links if link.name not in (bridge, "lo")}
    networks = [
        (ip_interface(f"{each.address}/{each.prefix_length}").network, names[each.link])
        for each in own_addresses(bridge, seen)
        if each.link in names
    ]
    networks.sort(key=lambda known: known[0].prefixlen, reverse=True)
    routes = sorted((route for route in seen.routes if route.table == MAIN_TABLE), key=lambda route: route.metric)
    routers = {
        version: next(
            (names[route.link] for route in routes if _is_default(route, version) and route.link in names), ""
        )
        for version in _DEFAULTS
    }
    found = {}
    for text in wanted:
        address = ip_address(text)
        link = next((name for network, name in networks if address in network), routers[address.version])
        if link:
            found[text] = link
    return found


def plan_pool_addresses(bridge: str, seen: HostSeen, places: Mapping[str, str]) -> Iterator[Step]:
    """From the addresses of ours that are there to `places`: the link of each that is wanted."""
    names, mark = {link.index: link.name for link in seen.links}, address_mark(bridge)
    present = set()
    for each in seen.addresses:
        link = names.get(each.link, "")
        # An address that the host has by itself is left alone, wherever it is.
        if each.protocol != mark or places.get(each.address) == link:
            present.add(each.address)
        elif link:
            yield RemoveAddress(link, each.address, each.prefix_length)
    yield from (AddSideAddress(link, each, mark) for each, link in places.items() if each not in present)


def pool_problems(bridge: str, seen: HostSeen, wanted: Collection[str], places: Mapping[str, str]) -> dict[str, str]:
    """What keeps the LAN's hosts from an address of these, by the address."""
    mark = address_mark(bridge)
    marked = {each.address: each for each in seen.addresses if each.protocol == mark}
    foreign = {each.address for each in own_addresses(bridge, seen)}
    problems = {}
    for each in wanted:
        if each not in places:
            problems[each] = f"no link of this host is in a network with {each}, and none leads to a router"
        elif each in foreign:
            problems[each] = f"{each} of load-balancer-pool is the host's own: {_REMEDY}"
        elif each in marked and marked[each].duplicate:
            problems[each] = f"another host on {places[each]} has {each} of load-balancer-pool: {_REMEDY}"
    return problems


def _is_default(route: Route, version: int) -> bool:
    return ip_network(route.destination) == ip_network(_DEFAULTS[version])
