"""Which addresses kvedge gives to the guests of a network of the LAN: as configurations and options write them.

Called by `lan_config`, by the command line, and by the controller, which reserves one for each guest. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

from msgspec import Struct

# Each guest's reservation stands in an annotation, which has room for a few thousand.
MOST_ADDRESSES: Final = 1024
_PREFIXES: Final = (8, 30)
_KEYS: Final = ("subnet", "first", "last", "gateway")
_LONGEST_SHOWN: Final = 60


class AddressesError(ValueError):
    """What is written is no range of addresses: the text says why."""


class LanAddresses(Struct, frozen=True, kw_only=True):
    """A range of a subnet, both ends included, and the router that guests are told of; empty for none."""

    subnet: str
    first: str
    last: str
    gateway: str = ""

    @property
    def network(self) -> IPv4Network:
        """The subnet."""
        return IPv4Network(self.subnet)

    def with_prefix(self, address: str) -> str:
        """An address as links have it. Raises AddressesError for one that no guest of the subnet can have."""
        found = _address("an address", address)
        if found not in self.network or found in (self.network.network_address, self.network.broadcast_address):
            raise AddressesError(f"{address} is no address for a guest of {self.subnet}")
        if address == self.gateway:
            raise AddressesError(f"{address} is the gateway's")
        return f"{found}/{self.network.prefixlen}"

    def fits(self, address: str) -> bool:
        """Whether a guest of the subnet can have it, in the range or not."""
        try:
            self.with_prefix(address)
        except AddressesError:
            return False
        return True

    def has(self, address: str) -> bool:
        """Whether it is of the range, and not the router's."""
        try:
            number = int(IPv4Address(address))
        except ValueError:
            return False
        return int(IPv4Address(self.first)) <= number <= int(IPv4Address(self.last)) and address != self.gateway

    def free_address(self, taken: Collection[str]) -> str | None:
        """The lowest that nobody has; None when there is none."""
        used = {*taken, self.gateway}
        for number in range(int(IPv4Address(self.first)), int(IPv4Address(self.last)) + 1):
            if (address := str(IPv4Address(number))) not in used:
                return address
        return None


def addresses_of_text(text: str, gateway: str = "") -> LanAddresses:
    """`192.168.1.50-192.168.1.99/24`. Raises AddressesError."""
    ends, _, prefix = text.partition("/")
    first, _, last = ends.partition("-")
    if not prefix.isdecimal() or len(prefix) > 2 or not last:
        raise AddressesError(f"{text[:_LONGEST_SHOWN]!r} is no range such as 192.168.1.50-192.168.1.99/24")
    start = _address("the first address", first)
    if not _PREFIXES[0] <= int(prefix) <= _PREFIXES[1]:
        raise AddressesError(f"a subnet has a prefix of /{_PREFIXES[0]} to /{_PREFIXES[1]}")
    return _check_addresses(str(IPv4Network((start, int(prefix)), strict=False)), first, last, gateway)


def addresses_of_document(value: Any) -> LanAddresses:
    """What stands in a configuration. Raises AddressesError."""
    if not isinstance(value, dict) or value.keys() - set(_KEYS):
        raise AddressesError(f"it is an object with the keys {', '.join(_KEYS)}")
    words = {key: value.get(key, "") for key in _KEYS}
    for key, word in words.items():
        if not isinstance(word, str):
            raise AddressesError(f"{key} is no text")
    return _check_addresses(words["subnet"], words["first"], words["last"], words["gateway"])


def addresses_document(addresses: LanAddresses) -> dict[str, str]:
    """As `addresses_of_document` reads it."""
    document = {"subnet": addresses.subnet, "first": addresses.first, "last": addresses.last}
    return {**document, "gateway": addresses.gateway} if addresses.gateway else document


def _check_addresses(subnet: str, first: str, last: str, gateway: str) -> LanAddresses:
    try:
        network = IPv4Network(subnet)
    except ValueError as error:
        raise AddressesError(f"{subnet[:_LONGEST_SHOWN]!r} is no subnet such as 192.168.1.0/24") from error
    if not _PREFIXES[0] <= network.prefixlen <= _PREFIXES[1]:
        raise AddressesError(f"a subnet has a prefix of /{_PREFIXES[0]} to /{_PREFIXES[1]}")
    ends = {"the first address": _address("the first address", first), "the last address": _address("the last", last)}
    if gateway:
        ends["the gateway"] = _address("the gateway", gateway)
    for what, address in ends.items():
        if address not in network or address in (network.network_address, network.broadcast_address):
            raise AddressesError(f"{what} {address} is no address of a host in {network}")
    count = int(ends["the last address"]) - int(ends["the first address"]) + 1
    if not 1 <= count <= MOST_ADDRESSES:
        raise AddressesError(f"{first}-{last} are {max(count, 0)} addresses: use 1 to {MOST_ADDRESSES}")
    return LanAddresses(subnet=str(network), first=first, last=last, gateway=gateway)


def _address(what: str, text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError as error:
        raise AddressesError(f"{what} {text[:_LONGEST_SHOWN]!r} is no IPv4 address") from error
