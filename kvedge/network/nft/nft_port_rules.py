"""Rules about what a port of a bridge may say of itself, and the keys of the sets that they look into. Pure.

A key is the name of the link and, behind it, a MAC, a VLAN or an address.
"""

from __future__ import annotations

from ipaddress import ip_address

from kvedge.network.nft.nft_rules import (
    ADVERTISED,
    AFTER_NAME,
    IIFNAME,
    LINK,
    NETWORK,
    OIFNAME,
    REGISTER32,
    SOURCE,
    TRANSPORT,
    lookup,
    meta,
    name_bytes,
    payload,
)
from kvedge.network.nft.nft_tables import Expression, Rule


def iifname_oifname_in(known_as: str) -> Rule:
    """The link by which it came in and the one by which it goes out are a key of that set."""
    return _port_key(meta(OIFNAME, AFTER_NAME), known_as, inverted=False)


def frame_source_of_port(known_as: str, *, inverted: bool) -> Rule:
    """The incoming link and the frame's source MAC are (or, inverted, are not) a key of that set."""
    return _port_key(payload(LINK, 6, 6, AFTER_NAME), known_as, inverted=inverted)


def tag_of_port(known_as: str, *, inverted: bool) -> Rule:
    """The same for the VLAN of a frame that has a tag."""
    number = Expression(
        "bitwise", {"sreg": AFTER_NAME, "dreg": AFTER_NAME, "len": 2, "mask": b"\x0f\xff", "xor": bytes(2)}
    )
    return (
        meta(IIFNAME, REGISTER32),
        payload(LINK, 14, 2, AFTER_NAME),
        number,
        lookup(known_as, REGISTER32, inverted=inverted),
    )


def arp_mac_of_port(known_as: str, *, inverted: bool) -> Rule:
    """As `frame_source_of_port`, for the MAC that an ARP packet says to be its sender's."""
    return _port_key(payload(NETWORK, 8, 6, AFTER_NAME), known_as, inverted=inverted)


def arp_address_of_port(known_as: str, *, inverted: bool) -> Rule:
    """The same for the IPv4 address that an ARP packet says to be its sender's."""
    return _port_key(payload(NETWORK, 14, 4, AFTER_NAME), known_as, inverted=inverted)


def source_of_port(known_as: str, *, inverted: bool, version: int = 4) -> Rule:
    """The same for the source of a packet."""
    return _port_key(payload(NETWORK, *SOURCE[version], AFTER_NAME), known_as, inverted=inverted)


def match_advertised_of_port(known_as: str, *, inverted: bool) -> Rule:
    """The same for the address that a neighbour advertisement is about."""
    return _port_key(payload(TRANSPORT, *ADVERTISED[6], AFTER_NAME), known_as, inverted=inverted)


def _port_key(second: Expression, known_as: str, *, inverted: bool) -> Rule:
    return meta(IIFNAME, REGISTER32), second, lookup(known_as, REGISTER32, inverted=inverted)


def port_mac_key(link: str, mac: bytes) -> bytes:
    """A key of a (link, MAC) set."""
    return name_bytes(link) + mac.ljust(8, b"\0")


def port_tag_key(link: str, vlan: int) -> bytes:
    """A key of a (link, VLAN) set."""
    return name_bytes(link) + vlan.to_bytes(2).ljust(4, b"\0")


def port_address_key(link: str, address: str) -> bytes:
    """A key of a (link, address) set."""
    return name_bytes(link) + ip_address(address).packed
