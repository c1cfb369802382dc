"""Addresses of the LAN that load balancers of one box get, as the setting has them. Pure.

Written as MetalLB writes its pools: networks or ranges, of IPv4 and IPv6, with commas between them:
`192.168.1.240-192.168.1.250,2001:db8::/120`.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from msgspec import Struct

IpAddress = IPv4Address | IPv6Address
# Each is a rule that every packet passes.
MOST_RANGES: Final = 32


class AddressRange(Struct, frozen=True):
    """From one address to another one, both in it."""

    first: IpAddress
    last: IpAddress

    def __contains__(self, address: IpAddress) -> bool:
        return address.version == self.first.version and int(self.first) <= int(address) <= int(self.last)

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def overlaps(self, first: IpAddress, last: IpAddress) -> bool:
        """Whether it has an address of the range between these two."""
        same = first.version == self.first.version
        return same and int(self.first) <= int(last) and int(first) <= int(self.last)

    def addresses(self) -> Iterator[IpAddress]:
        """All, the lowest first."""
        kind = type(self.first)
        return (kind(number) for number in range(int(self.first), int(self.last) + 1))


class AddressPool(Struct, frozen=True):
    """Ranges, none of which has an address of another one."""

    ranges: tuple[AddressRange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, address: IpAddress) -> bool:
        return any(address in each for each in self.ranges)

    def of_version(self, version: int) -> tuple[AddressRange, ...]:
        """Those of one version of IP."""
        return tuple(each for each in self.ranges if each.first.version == version)


def address_pool(text: str) -> AddressPool:
    """What the setting says; an empty one is no pool.

    Raises:
        ValueError: when something of it is no network or range that hosts can have; with the reason.
    """
    given = [each.strip() for each in text.split(",")] if text.strip() else []
    if len(given) > MOST_RANGES:
        raise ValueError(f"there are {len(given)} ranges: give {MOST_RANGES} at most")
    found: list[AddressRange] = []
    for each in given:
        made = _range(each)
        if any(made.overlaps(other.first, other.last) for other in found):
            raise ValueError(f"{each} has addresses of another range: give each once")
        found.append(made)
    return AddressPool(tuple(found))


def _range(text: str) -> AddressRange:
    if "/" in text:
        network = ip_network(text)
        made = AddressRange(network.network_address, network.broadcast_address)
    else:
        first, _, last = text.partition("-")
        made = AddressRange(ip_address(first.strip()), ip_address((last or first).strip()))
    if made.first.version != made.last.version or int(made.first) > int(made.last):
        raise ValueError(f"{text} does not lead from a lower address to a higher one")
    for address in (made.first, made.last):
        if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
            raise ValueError(f"{address} is no address that other hosts reach this one by")
    return made
