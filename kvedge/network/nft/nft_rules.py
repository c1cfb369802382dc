"""The few nftables expressions that kvedge's own tables are made of, as values.

A rule is a tuple of `Expression`s read from left to right: load something into the register, compare it, and in the
end a verdict. Pure. Written out rather than handed to the `nft` program so that a host needs none; the tests read the
result back with `nft` and compare.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final

from kvedge.network.nft.nft_tables import Expression, Rule

NAME_LENGTH: Final = 16
LINK, NETWORK, TRANSPORT = 0, 1, 2
# Offset and length of an address in its header, by version.
SOURCE: Final = {4: (12, 4), 6: (8, 16)}
DESTINATION: Final = {4: (16, 4), 6: (24, 16)}
# In the ICMPv6 message of a neighbour.
ADVERTISED: Final = {6: (8, 16)}
_CT_STATE = 0
# Bits of the state of a connection, in the host's order.
_NEW = struct.pack("=I", 1 << 3)
_ADD, _UPDATE = 0, 1
# NFT_LIMIT_F_INV: what is over matches.
_OVER = 1
_META_PROTOCOL, OIFNAME, _META_L4PROTO = 1, 7, 16
# Of a packet's facts: the name of the link by which it came.
IIFNAME: Final = 6
_META_IIFKIND, _META_OIFKIND = 26, 27
_EQUAL, _DIFFERENT = 0, 1
REGISTER: Final = 1
# Four-byte registers, for keys of several fields.
REGISTER32: Final = 8
# The register behind a name, which is the first field of a key: fields lie in neighbouring registers.
AFTER_NAME: Final = REGISTER32 + NAME_LENGTH // 4
ETHERTYPE_IPV4: Final = 0x0800
ETHERTYPE_ARP: Final = 0x0806
ETHERTYPE_IPV6: Final = 0x86DD
ETHERTYPE_VLAN: Final = 0x8100
ETHERTYPE_PROVIDER_VLAN: Final = 0x88A8
UDP: Final = 17
ICMPV6: Final = 58

DROP: Final = Expression("verdict", {"code": 0})
ACCEPT: Final = Expression("verdict", {"code": 1})
MASQUERADE: Final = Expression("masq")


def ethertype_is(value: int) -> Rule:
    """The frame carries this protocol."""
    return meta(_META_PROTOCOL), compare(struct.pack("!H", value))


def ethertype_is_neither(*values: int) -> Rule:
    """The frame carries none of these protocols."""
    return meta(_META_PROTOCOL), *(compare(struct.pack("!H", value), _DIFFERENT) for value in values)


def iifname_is(name: str) -> Rule:
    """Came in by this link; a name that ends in `*` stands for all that begin so."""
    return meta(IIFNAME), compare(name_bytes(name))


def iifname_is_not(name: str) -> Rule:
    """Came in by any other link."""
    return meta(IIFNAME), compare(name_bytes(name), _DIFFERENT)


def oifname_is(name: str) -> Rule:
    """Goes out by this link."""
    return meta(OIFNAME), compare(name_bytes(name))


def oifname_is_not(name: str) -> Rule:
    """Goes out by any other link."""
    return meta(OIFNAME), compare(name_bytes(name), _DIFFERENT)


def frame_source_is(mac: str) -> Rule:
    """The frame was sent from this MAC."""
    return payload(LINK, 6, 6), compare(bytes.fromhex(mac.replace(":", "")))


def frame_source_is_not(mac: str) -> Rule:
    """The frame was sent from another MAC."""
    return payload(LINK, 6, 6), compare(bytes.fromhex(mac.replace(":", "")), _DIFFERENT)


def arp_mac_is_not(mac: str) -> Rule:
    """An ARP packet that says another MAC than this one to be its sender's."""
    return payload(NETWORK, 8, 6), compare(bytes.fromhex(mac.replace(":", "")), _DIFFERENT)


def frame_carries_tag(ethertype: int) -> Rule:
    """The frame has a VLAN's tag of that kind, as it would be on a wire."""
    return payload(LINK, 12, 2), compare(struct.pack("!H", ethertype))


def frame_is_for_bridges() -> Rule:
    """The frame is for the bridges of this link alone, as spanning tree's are (IEEE 802.1D's reserved addresses)."""
    return payload(LINK, 0, 5), compare(bytes.fromhex("0180c20000"))


def arp_sender_fits(known_as: str) -> Rule:
    """The IPv4 address that an ARP packet says to be its sender's is in that set, or is added and still had room."""
    return payload(NETWORK, 14, 4), Expression("dynset", {"set_name": known_as, "op": _UPDATE, "sreg_key": REGISTER})


def ipv6_source_fits(known_as: str) -> Rule:
    """As `arp_sender_fits`, for the source of an IPv6 packet."""
    return payload(NETWORK, 8, 16), Expression("dynset", {"set_name": known_as, "op": _UPDATE, "sreg_key": REGISTER})


def begins_more_flows_than(most: int, known_as: str, version: int = 4) -> Rule:
    """The packet begins a connection, and its source has so many already; that set holds the counts."""
    counted = Expression("connlimit", {"count": most, "flags": frozenset({"NFT_LIMIT_F_INV"})})
    return (
        Expression("ct", {"key": _CT_STATE, "dreg": REGISTER}),
        Expression("bitwise", {"sreg": REGISTER, "dreg": REGISTER, "len": 4, "mask": _NEW, "xor": bytes(4)}),
        compare(bytes(4), _DIFFERENT),
        payload(NETWORK, *SOURCE[version]),
        Expression("dynset", {"set_name": known_as, "op": _ADD, "sreg_key": REGISTER, "expr": counted}),
    )


def comes_more_often_than(per_second: int, burst: int, known_as: str) -> Rule:
    """The IPv4 packet's source has sent more of its kind than this rate and burst; that set holds the rates."""
    rate = {"rate": per_second, "unit": 1, "burst": burst, "flags": _OVER}
    return (
        payload(NETWORK, *SOURCE[4]),
        Expression(
            "dynset",
            {"set_name": known_as, "op": _UPDATE, "sreg_key": REGISTER, "expr": Expression("limit", rate)},
        ),
    )


def udp_port_within(first: int, last: int) -> Rule:
    """A UDP packet to a port of this range."""
    return _udp_port(2, first, last)


def icmpv6_type_within(first: int, last: int) -> Rule:
    """An ICMPv6 message of a type of this range."""
    return (
        meta(_META_L4PROTO),
        compare(bytes([ICMPV6])),
        payload(TRANSPORT, 0, 1),
        Expression("range", {"sreg": REGISTER, "op": 0, "from_data": bytes([first]), "to_data": bytes([last])}),
    )


def source_within(network: str) -> Rule:
    """The source lies in this network, IPv4 or IPv6 as the packets of the table are."""
    return _address_within(SOURCE, network, _EQUAL)


def source_not_within(network: str) -> Rule:
    """The source lies outside this network."""
    return _address_within(SOURCE, network, _DIFFERENT)


def destination_within(network: str) -> Rule:
    """The destination lies in this network."""
    return _address_within(DESTINATION, network, _EQUAL)


def destination_not_within(network: str) -> Rule:
    """The destination lies outside this network."""
    return _address_within(DESTINATION, network, _DIFFERENT)


def match_advertised_within(network: str) -> Rule:
    """The address that a neighbour advertisement is about lies in this network."""
    return _address_within(ADVERTISED, network, _EQUAL)


def match_advertised_outside(network: str) -> Rule:
    """The address that a neighbour advertisement is about lies outside this network."""
    return _address_within(ADVERTISED, network, _DIFFERENT)


def destination_not_in(known_as: str, version: int = 4) -> Rule:
    """The destination is not in that set."""
    return payload(NETWORK, *DESTINATION[version]), lookup(known_as, REGISTER, inverted=True)


def iifname_not_in(known_as: str) -> Rule:
    """Came in by a link that is not in that set."""
    return meta(IIFNAME), lookup(known_as, REGISTER, inverted=True)


def oifname_not_in(known_as: str) -> Rule:
    """Goes out by a link that is not in that set."""
    return meta(OIFNAME), lookup(known_as, REGISTER, inverted=True)


def iifs_kind_is_not(kind: str) -> Rule:
    """Came in by a link of another kind."""
    return meta(_META_IIFKIND), compare(name_bytes(kind), _DIFFERENT)


def oifs_kind_is_not(kind: str) -> Rule:
    """Goes out by a link of another kind."""
    return meta(_META_OIFKIND), compare(name_bytes(kind), _DIFFERENT)


def _udp_port(offset: int, first: int, last: int) -> Rule:
    return (
        meta(_META_L4PROTO),
        compare(bytes([UDP])),
        payload(TRANSPORT, offset, 2),
        Expression("range", {"sreg": REGISTER, "op": 0, "from_data": _port(first), "to_data": _port(last)}),
    )


def _address_within(where: Mapping[int, tuple[int, int]], network: str, comparison: int) -> Rule:
    net = ip_network(network)
    offset, length = where[net.version]
    mask = Expression(
        "bitwise",
        {"sreg": REGISTER, "dreg": REGISTER, "len": length, "mask": net.netmask.packed, "xor": bytes(length)},
    )
    base = TRANSPORT if where is ADVERTISED else NETWORK
    return payload(base, offset, length), mask, compare(net.network_address.packed, comparison)


def _port(number: int) -> bytes:
    return struct.pack("!H", number)


def name_bytes(name: str) -> bytes:
    """The name of a link as it is compared; with a star at its end, the part before it."""
    return name[:-1].encode() if name.endswith("*") else name.encode().ljust(NAME_LENGTH, b"\0")


def meta(key: int, register: int = REGISTER) -> Expression:
    """Load a fact about the packet."""
    return Expression("meta", {"key": key, "dreg": register})


def payload(base: int, offset: int, length: int, register: int = REGISTER) -> Expression:
    """Load bytes of one of the packet's headers."""
    return Expression("payload", {"dreg": register, "base": base, "offset": offset, "len": length})


def compare(data: bytes, comparison: int = _EQUAL) -> Expression:
    """Go on when what was loaded is (or, by another comparison, is not) this."""
    return Expression("cmp", {"sreg": REGISTER, "op": comparison, "data": data})


def lookup(known_as: str, register: int, *, inverted: bool) -> Expression:
    """Go on when what was loaded is (or, inverted, is not) a key of that set."""
    flags = frozenset({"NFT_LOOKUP_F_INV"} if inverted else ())
    return Expression("lookup", {"set": known_as, "sreg": register, "flags": flags})


def link_key(name: str) -> bytes:
    """A key of a set of links."""
    return name_bytes(name)


def address_key(address: str) -> bytes:
    """A key of a set of addresses."""
    return ip_address(address).packed
