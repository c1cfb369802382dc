"""How packets for a Service reach an endpoint, as one nftables table whose rules never change: maps do.

A packet costs the same with one Service as with a thousand: it is looked up by address, protocol and port. Where a
Service has several endpoints, each of `SLOTS` slots stands for one of them, and a new connection takes a slot by chance
(or, with session affinity, by its source). Pure; `service_network` puts the table into the kernel.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from ipaddress import ip_address, ip_network
from typing import Final

from msgspec import Struct

from kvedge.network.nft.nft_rules import MASQUERADE, destination_within, oifname_is, source_within
from kvedge.network.nft.nft_tables import Chain, Expression, Family, Hook, Rule, Set, Table, Value
from kvedge.runtime.address_pool import AddressRange

PROTOCOLS: Final = {"TCP": 6, "UDP": 17, "SCTP": 132}
# Any address of the host's own: a node port is at each.
ANY_OWN: Final = "0.0.0.0"
ANY_OWN_IPV6: Final = "::"
# So many ways lead to a Service's endpoints; with more endpoints than that, the rest waits for others to go.
SLOTS: Final = 64

# nft's priorities: before packets are routed; where source NAT belongs; where filters do.
DESTINATION_NAT_PRIORITY: Final = -100
AFTER_DESTINATION_NAT_PRIORITY: Final = -99
SOURCE_NAT_PRIORITY: Final = 100
FILTER_PRIORITY: Final = 0

_FRONT: Final = (("ipv4_addr", 4), ("inet_proto", 1), ("inet_service", 2))
_BACK: Final = (("ipv4_addr", 4), ("inet_service", 2))
_SLOT: Final = ("mark", 4)
DIRECT: Final = Set("direct", _FRONT, data=_BACK)
SPREAD: Final = Set("spread", (*_FRONT, _SLOT), data=_BACK)
STICKY: Final = Set("sticky", (*_FRONT, _SLOT), data=_BACK)
_IPV6: Final = ("ipv6_addr", 16)
# The same in the table of IPv6.
_MAPS_OF_IPV6: Final = tuple(
    Set(each.name, (_IPV6, *each.fields[1:]), data=(_IPV6, *each.data[1:])) for each in (DIRECT, SPREAD, STICKY)
)

_NETWORK, _TRANSPORT = 1, 2
_META_L4PROTO: Final = 16
_CT_DIRECTION, _CT_STATUS = 1, 2
# Bits of a connection's status, and the kernel's number of local addresses, both in the host's order.
_DESTINATION_CHANGED: Final = struct.pack("=I", 1 << 5)
_LOCAL: Final = struct.pack("=I", 2)
_REGISTER: Final = 1
# The four-byte register in which a key begins with its address; protocol, port and slot follow.
_ADDRESS: Final = 8
_EQUAL, _DIFFERENT = 0, 1


class _Layout(Struct, frozen=True):
    """What differs between the versions: where addresses lie in a packet, and the fields of a key in registers."""

    family: Family
    length: int
    source: int
    destination: int
    # The first byte of the loopback's addresses.
    loopback: bytes
    unreached_code: int
    icmp: int

    @property
    def after_address(self) -> int:
        """The register of the field behind the address."""
        return _ADDRESS + self.length // 4


# The codes are those of "port unreachable".
_LAYOUTS: Final = {
    4: _Layout(Family.IP, 4, 12, 16, b"\x7f", unreached_code=3, icmp=1),
    6: _Layout(Family.IP6, 16, 8, 24, bytes(15) + b"\1", unreached_code=4, icmp=58),
}


class Frontend(Struct, frozen=True, order=True):
    """What clients name: an address, or `ANY_OWN`, a protocol and a port."""

    address: str
    protocol: str
    port: int

    @property
    def version(self) -> int:
        """Of IP."""
        return ip_address(self.address).version

    @property
    def key(self) -> bytes:
        """It as a key of the maps."""
        protocol = bytes([PROTOCOLS[self.protocol]]).ljust(4, b"\0")
        return ip_address(self.address).packed + protocol + struct.pack("!H", self.port).ljust(4, b"\0")


class Balanced(Struct, frozen=True):
    """One port of a Service: where it is named, and who answers there, by the same version of IP.

    `sticky`: a client keeps its endpoint.
    """

    frontend: Frontend
    endpoints: tuple[tuple[str, int], ...]
    sticky: bool = False


def service_table(
    name: str, service_cidr: str, pod_cidr: str, bridge: str, pool: Collection[AddressRange] = ()
) -> Table:
    """What is for a Service goes to an endpoint; what is for an address of no Service, or of one without, is refused.

    A guest that is reached by another one through a Service sees the box's address: its answer would go straight to
    the other guest, who has never asked it. The same holds for a guest that reaches itself.

    An address of the `pool` is the host's to the kernel: programs of the host that listen on all addresses are not to
    be reached by it. Its neighbours still are to find it, and pings are answered.
    """
    layout = _LAYOUTS[ip_network(service_cidr).version]
    turned = (*_by_address(layout), *_by_own_address(layout))
    unreached = Expression("reject", {"type": 0, "icmp_code": layout.unreached_code})
    refused: tuple[Rule, ...] = (
        (*destination_within(service_cidr), *_is_tcp(), _RESET),
        (*destination_within(service_cidr), unreached),
    )
    for each in pool:
        # An answer to the host itself, which asks a Service by that very address, comes there too.
        within = (*_is_original(), *_destination_between(layout, each))
        refused += ((*within, *_is_tcp(), _RESET), (*within, *_is_no_icmp(layout), unreached))
    between = (*oifname_is(bridge), *source_within(pod_cidr), *_match_turned(), MASQUERADE)
    chains = (
        Chain("prerouting", Hook.PREROUTING, DESTINATION_NAT_PRIORITY, turned, type="nat"),
        Chain("output", Hook.OUTPUT, DESTINATION_NAT_PRIORITY, turned, type="nat"),
        Chain("postrouting", Hook.POSTROUTING, SOURCE_NAT_PRIORITY, (between,), type="nat"),
        # Not where it is forwarded: there a guest is first told of a better way (ICMP redirect), as the packet would
        # leave by the bridge by which it came, and the kernel's limit for one guest then keeps the refusal back.
        Chain("arriving", Hook.PREROUTING, AFTER_DESTINATION_NAT_PRIORITY, refused),
        Chain("local", Hook.OUTPUT, FILTER_PRIORITY, refused),
    )
    return Table(
        layout.family, name, chains, _MAPS_OF_IPV6 if layout.family == Family.IP6 else (DIRECT, SPREAD, STICKY)
    )


def element_count(port: Balanced) -> int:
    """How many elements it takes."""
    return SLOTS if len(port.endpoints) > 1 else len(port.endpoints)


def service_elements(ports: Iterable[Balanced]) -> dict[str, frozenset[bytes]]:
    """The contents of the maps: each element is a key and, behind it, where that leads."""
    direct: set[bytes] = set()
    slots: dict[bool, set[bytes]] = {False: set(), True: set()}
    for each in ports:
        key, ways = each.frontend.key, [_way_key(*endpoint) for endpoint in each.endpoints[:SLOTS]]
        if len(ways) == 1:
            direct.add(key + ways[0])
        elif ways:
            for slot in range(SLOTS):
                slots[each.sticky].add(key + struct.pack("=I", slot) + ways[slot % len(ways)])
    return {
        DIRECT.name: frozenset(direct),
        SPREAD.name: frozenset(slots[False]),
        STICKY.name: frozenset(slots[True]),
    }


def _way_key(address: str, port: int) -> bytes:
    return ip_address(address).packed + struct.pack("!H", port).ljust(4, b"\0")


def _by_address(layout: _Layout) -> tuple[Rule, ...]:
    address = (_payload(_NETWORK, layout.destination, layout.length, _ADDRESS),)
    return _three_ways(layout, address)


def _by_own_address(layout: _Layout) -> tuple[Rule, ...]:
    """Node ports are at the host's addresses, not at its loopback: what comes from there is answered there only."""
    own = (
        Expression("fib", {"dreg": _REGISTER, "result": _ADDRESS_TYPE, "flags": _OF_DESTINATION}),
        _compare(_LOCAL, _EQUAL),
        _payload(_NETWORK, layout.destination, len(layout.loopback), _REGISTER),
        _compare(layout.loopback, _DIFFERENT),
        # The key has `ANY_OWN` for each of them.
        _payload(_NETWORK, layout.destination, layout.length, _ADDRESS),
        Expression(
            "bitwise",
            {
                "sreg": _ADDRESS,
                "dreg": _ADDRESS,
                "len": layout.length,
                "mask": bytes(layout.length),
                "xor": bytes(layout.length),
            },
        ),
    )
    return _three_ways(layout, own)


# The kernel's NFT_FIB_RESULT_ADDRTYPE and NFTA_FIB_F_DADDR.
_ADDRESS_TYPE: Final = frozenset({"NFT_FIB_RESULT_UNSPEC", "NFT_FIB_RESULT_OIF"})
_OF_DESTINATION: Final = 2


def _three_ways(layout: _Layout, address: Rule) -> tuple[Rule, ...]:
    """To the only endpoint, or to one by chance, or to one by the client's address."""
    protocol, port, choice, client = (layout.after_address + place for place in range(4))
    front = (*address, _meta_protocol(protocol), _payload(_TRANSPORT, 2, 2, port))
    by_chance = Expression("numgen", {"dreg": choice, "modulus": SLOTS, "type": 1, "offset": 0})
    by_source = Expression(
        "hash",
        {
            "sreg": client,
            "dreg": choice,
            "len": layout.length,
            "modulus": SLOTS,
            "seed": 0,
            "offset": 0,
            "type": 0,
        },
    )
    source = _payload(_NETWORK, layout.source, layout.length, client)
    # To the address and the port that a map has given, which lie where the key was.
    turn = Expression(
        "nat",
        {
            "type": 1,
            "family": int(layout.family),
            "reg_addr_min": _ADDRESS,
            "reg_proto_min": layout.after_address,
        },
    )
    return (
        (*front, _lookup(DIRECT), turn),
        (*front, by_chance, _lookup(SPREAD), turn),
        (*front, source, by_source, _lookup(STICKY), turn),
    )


def _lookup(known_as: Set) -> Expression:
    return Expression("lookup", {"set": known_as.name, "sreg": _ADDRESS, "dreg": _ADDRESS})


_RESET: Final = Expression("reject", {"type": 1, "icmp_code": 0})


def _match_turned() -> Rule:
    return (
        Expression("ct", {"key": _CT_STATUS, "dreg": _REGISTER}),
        Expression(
            "bitwise",
            {"sreg": _REGISTER, "dreg": _REGISTER, "len": 4, "mask": _DESTINATION_CHANGED, "xor": bytes(4)},
        ),
        _compare(bytes(4), _DIFFERENT),
    )


def _is_tcp() -> Rule:
    return _meta_protocol(_REGISTER), _compare(bytes([PROTOCOLS["TCP"]]), _EQUAL)


def _is_original() -> Rule:
    return Expression("ct", {"key": _CT_DIRECTION, "dreg": _REGISTER}), _compare(bytes(1), _EQUAL)


def _is_no_icmp(layout: _Layout) -> Rule:
    return _meta_protocol(_REGISTER), _compare(bytes([layout.icmp]), _DIFFERENT)


def _destination_between(layout: _Layout, pool: AddressRange) -> Rule:
    bounds: dict[str, Value] = {
        "sreg": _REGISTER,
        "op": _EQUAL,
        "from_data": pool.first.packed,
        "to_data": pool.last.packed,
    }
    return _payload(_NETWORK, layout.destination, layout.length, _REGISTER), Expression("range", bounds)


def _meta_protocol(register: int) -> Expression:
    return Expression("meta", {"key": _META_L4PROTO, "dreg": register})


def _payload(base: int, offset: int, length: int, register: int) -> Expression:
    return Expression("payload", {"dreg": register, "base": base, "offset": offset, "len": length})


def _compare(data: bytes, comparison: int) -> Expression:
    return Expression("cmp", {"sreg": _REGISTER, "op": comparison, "data": data})
