"""The nftables expressions of address translation, for tables that have both IPv4 and IPv6.

Pure, beside `nft_rules`, whose words these are made of. In a table of both, each word that looks at an address says
first of which version the packet must be.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_address, ip_network
from typing import Final

from kvedge.network.nft.nft_rules import DESTINATION, REGISTER, REGISTER32, SOURCE, compare, lookup, meta, payload
from kvedge.network.nft.nft_tables import Expression, Rule

_META_NFPROTO, _META_L4PROTO, _META_PKTTYPE = 15, 16, 19
_NETWORK, _TRANSPORT = 1, 2
_CT_STATE, _CT_STATUS = 0, 2
_SNAT, _DNAT = 0, 1
_DIFFERENT = 1
_ADD: Final = 0
_FAMILIES: Final = {4: int(socket.AF_INET), 6: int(socket.AF_INET6)}
# Bits of a connection's state, and of its status.
INVALID, NEW, UNTRACKED = 1, 8, 64
_STATUS_DNAT: Final = 1 << 5
# The kind of a packet that is for this host alone.
_FOR_HOST: Final = 0
TCP: Final = 6
UDP: Final = 17


def is_version(version: int) -> Rule:
    """A packet of this IP version."""
    return meta(_META_NFPROTO), compare(bytes([_FAMILIES[version]]))


def source_is(address: str) -> Rule:
    """The packet comes from this address."""
    return _address_is(SOURCE, address)


def destination_is(address: str) -> Rule:
    """The packet is for this address."""
    return _address_is(DESTINATION, address)


def is_for_host() -> Rule:
    """The packet is for this host alone, and not for everybody or a group."""
    return meta(_META_PKTTYPE), compare(bytes([_FOR_HOST]))


def protocol_is(protocol: int) -> Rule:
    """TCP or UDP, say."""
    return meta(_META_L4PROTO), compare(bytes([protocol]))


def goes_to_port(protocol: int, port: int) -> Rule:
    """The packet is for this port."""
    return (*protocol_is(protocol), payload(_TRANSPORT, 2, 2), compare(struct.pack("!H", port)))


def goes_to_port_within(protocol: int, first: int, last: int) -> Rule:
    """The packet is for one of these ports."""
    ports = {"from_data": struct.pack("!H", first), "to_data": struct.pack("!H", last)}
    return (
        *protocol_is(protocol),
        payload(_TRANSPORT, 2, 2),
        Expression("range", {"sreg": REGISTER, "op": 0, **ports}),
    )


def goes_to_port_in(known_as: str) -> Rule:
    """Protocol and port are a key of that set."""
    return (
        meta(_META_L4PROTO, REGISTER32),
        payload(_TRANSPORT, 2, 2, REGISTER32 + 1),
        lookup(known_as, REGISTER32, inverted=False),
    )


def connection_is(*states: int) -> Rule:
    """The packet's connection is in one of these states."""
    return _has_bits(_CT_STATE, sum(states), some=True)


def is_not_translated() -> Rule:
    """The destination of the packet's connection was not changed."""
    return _has_bits(_CT_STATUS, _STATUS_DNAT, some=False)


def begins_more_flows(version: int, most: int, known_as: str) -> Rule:
    """The packet begins a connection, and its source has so many already; that set holds the counts."""
    counted = Expression("connlimit", {"count": most, "flags": frozenset({"NFT_LIMIT_F_INV"})})
    return (
        *connection_is(NEW),
        *is_version(version),
        payload(_NETWORK, *SOURCE[version]),
        Expression("dynset", {"set_name": known_as, "op": _ADD, "sreg_key": REGISTER, "expr": counted}),
    )


def dnat_to(address: str) -> Rule:
    """From now on the connection goes to this address."""
    return _translate(_DNAT, address)


def snat_to(address: str) -> Rule:
    """From now on the connection comes from this address."""
    return _translate(_SNAT, address)


# The same in a bridge's table, where the frame has told what is in it.


def frame_destination_within(network: str) -> Rule:
    """The IPv4 or IPv6 destination lies in this network."""
    return _match_within(DESTINATION, network)


def frame_source_within(network: str) -> Rule:
    """The IPv4 or IPv6 source lies in this network."""
    return _match_within(SOURCE, network)


def arp_mac_is_not(mac: str) -> Rule:
    """An ARP packet says that its sender has another MAC."""
    return payload(_NETWORK, 8, 6), compare(bytes.fromhex(mac.replace(":", "")), _DIFFERENT)


def arp_address_is(address: str) -> Rule:
    """An ARP packet says that its sender has this address."""
    return payload(_NETWORK, 14, 4), compare(ip_address(address).packed)


def port_key(protocol: int, port: int) -> bytes:
    """A key of a (protocol, port) set."""
    return struct.pack("!B3xH2x", protocol, port)


def _address_is(where: dict[int, tuple[int, int]], text: str) -> Rule:
    address = ip_address(text)
    return (*is_version(address.version), payload(_NETWORK, *where[address.version]), compare(address.packed))


def _match_within(where: dict[int, tuple[int, int]], text: str) -> Rule:
    network = ip_network(text)
    return (
        payload(_NETWORK, *where[network.version]),
        _mask(network.netmask.packed),
        compare(network.network_address.packed),
    )


def _has_bits(key: int, bits: int, *, some: bool) -> Rule:
    return (
        Expression("ct", {"key": key, "dreg": REGISTER}),
        _mask(struct.pack("=I", bits)),
        compare(bytes(4), _DIFFERENT if some else 0),
    )


def _mask(mask: bytes) -> Expression:
    length = len(mask)
    return Expression(
        "bitwise", {"sreg": REGISTER, "dreg": REGISTER, "len": length, "mask": mask, "xor": bytes(length)}
    )


def _translate(kind: int, text: str) -> Rule:
    address = ip_address(text)
    return (
        Expression("immediate", {"dreg": REGISTER, "data": address.packed}),
        Expression("nat", {"type": kind, "family": _FAMILIES[address.version], "reg_addr_min": REGISTER}),
    )
