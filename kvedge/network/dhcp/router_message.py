"""Router advertisements as bytes and as values (RFC 4861, 4191, 8106), and what asks for one.

Used by `ipv6_plan` (which decides) and `ipv6_server` (which moves the bytes), in the launcher. No I/O here. The
ICMPv6 checksum is the kernel's business on a raw ICMPv6 socket. What arrives was written by the guest and is judged
strictly, never repaired.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Final

from kvedge.network.dhcp.dhcp6_message import encode_names
from kvedge.network.dhcp.dhcp_message import BadPacket

SOLICITATION: Final = 133
ADVERTISEMENT: Final = 134
# Only who is on the link can send a packet that arrives with it.
LINK_HOP_LIMIT: Final = 255
LARGEST_SOLICITATION: Final = 1280

# type, code, checksum, hop limit for the guest to use, flags, lifetime, reachable time, retransmission time
_HEADER: Final = struct.Struct("!BBHBBHII")
_HOP_LIMIT: Final = 64
# Addresses, and all else, are to be had from DHCPv6.
_MANAGED: Final = 0x80 | 0x40
_ON_LINK: Final = 0x80
_FOREVER: Final = 0xFFFFFFFF
_PREFIX, _MTU, _ROUTE, _DNS, _SEARCH = 3, 5, 24, 25, 31


@dataclass(frozen=True, kw_only=True)
class Advertisement:
    """What a guest is told of its link. A `lifetime` of 0 seconds: the sender is no default router.

    `subnet` (empty for none) is on the link, `routes` lead by the sender; all live for as long as the sender does or,
    without a default route, for `seconds`.
    """

    lifetime: int
    seconds: int
    mtu: int
    subnet: str = ""
    routes: Sequence[str] = ()
    dns: Sequence[str] = ()
    search: Sequence[str] = ()


def check_solicitation(packet: bytes, hop_limit: int) -> None:
    """Judges one ICMPv6 message; raises `BadPacket` for everything that is not exactly a router solicitation."""
    if hop_limit != LINK_HOP_LIMIT:
        raise BadPacket("came through a router")
    if not 8 <= len(packet) <= LARGEST_SOLICITATION:
        raise BadPacket("of a wrong length")
    if packet[0] != SOLICITATION or packet[1] != 0:
        raise BadPacket("no solicitation of a router")
    at = 8
    while at < len(packet):
        if at + 2 > len(packet) or packet[at + 1] == 0 or at + packet[at + 1] * 8 > len(packet):
            raise BadPacket("an option runs past the end")
        at += packet[at + 1] * 8


def render_advertisement(told: Advertisement) -> bytes:
    """The ICMPv6 message, with zeros for its checksum."""
    packet = _HEADER.pack(ADVERTISEMENT, 0, 0, _HOP_LIMIT, _MANAGED, told.lifetime, 0, 0)
    packet += struct.pack("!BBHI", _MTU, 1, 0, told.mtu)
    if told.subnet:
        net = IPv6Network(told.subnet)
        # Never for making an address of: that comes from DHCPv6 alone.
        packet += struct.pack("!BBBBIII", _PREFIX, 4, net.prefixlen, _ON_LINK, _FOREVER, _FOREVER, 0)
        packet += net.network_address.packed
    for route in told.routes:
        packet += _route(IPv6Network(route), told.seconds)
    if told.dns:
        packet += struct.pack("!BBHI", _DNS, 1 + 2 * len(told.dns), 0, told.seconds)
        packet += b"".join(IPv6Address(address).packed for address in told.dns)
    names = encode_names(told.search)
    if names:
        names = names.ljust(-(-len(names) // 8) * 8, b"\0")
        packet += struct.pack("!BBHI", _SEARCH, 1 + len(names) // 8, 0, told.seconds) + names
    return packet


def _route(net: IPv6Network, seconds: int) -> bytes:
    significant = -(-net.prefixlen // 64) * 8
    head = struct.pack("!BBBBI", _ROUTE, 1 + significant // 8, net.prefixlen, 0, seconds)
    return head + net.network_address.packed[:significant]
