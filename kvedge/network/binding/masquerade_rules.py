"""The nftables tables of a masqueraded guest: one fences it in, the other translates its addresses.

Pure; `masquerade_plan` puts them into its steps. Each table's name ends in a digest of what it holds, so that one look
at the names tells whether it is the wanted one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kvedge.network.binding.binding_state import Names
from kvedge.network.binding.bridge_binding_plan import IPV6_SENDERS
from kvedge.network.drop_rules import Reason, counting, drop
from kvedge.network.nft.nft_nat_rules import (
    INVALID,
    NEW,
    TCP,
    UNTRACKED,
    arp_address_is,
    arp_mac_is_not,
    begins_more_flows,
    connection_is,
    destination_is,
    dnat_to,
    frame_destination_within,
    frame_source_within,
    goes_to_port,
    goes_to_port_in,
    goes_to_port_within,
    is_for_host,
    is_not_translated,
    is_version,
    port_key,
    snat_to,
    source_is,
)
from kvedge.network.nft.nft_rules import (
    ACCEPT,
    DROP,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    MASQUERADE,
    ethertype_is,
    ethertype_is_neither,
    frame_source_is_not,
    icmpv6_type_within,
    iifname_is,
    iifname_is_not,
    ipv6_source_fits,
    oifname_is,
    oifname_is_not,
    udp_port_within,
)
from kvedge.network.nft.nft_tables import Chain, Family, Hook, Rule, Set, Table
from kvedge.resources.masquerade import SIDECAR_PORTS

TABLE_PREFIX: Final = "kvedge_masquerade_"
FENCE_PRIORITY: Final = -300
FLOWS_PRIORITY: Final = -150
DESTINATION_NAT_PRIORITY: Final = -100
FILTER_PRIORITY: Final = 0
SOURCE_NAT_PRIORITY: Final = 100
# As much as a guest may have at once on one box: the Pod's namespace tracks each of them as well.
MOST_FLOWS: Final = 4096
NOBODY: Final = "0.0.0.0/32"
# IPv4's alone: the kernel takes no answer to ::1 from a link. KubeVirt has rules for it, which lead nowhere.
LOOPBACK: Final = "127.0.0.1"
# From here a mesh's sidecar speaks to what it stands before.
SIDECAR_SOURCE: Final = "127.0.0.6"
SSH: Final = 22
_DHCP_SERVER: Final = (67, 67)
# Advertisements of routers, and redirects: a guest is no router.
_OF_ROUTERS: Final = ((134, 134), (137, 137))
_ICMPV6: Final = (0, 255)

PORTS: Final = Set("ports", (("inet_proto", 1), ("inet_service", 2)))
FLOWS: Final = {4: Set("flows4", (("ipv4_addr", 4),), most=16), 6: Set("flows6", (("ipv6_addr", 16),), most=64)}


class GuestAddress(Struct, frozen=True):
    """The guest's address of one IP version, its router's, which is the bridge's, and the Pod's of that version."""

    version: int
    guest: str
    gateway: str
    prefix_length: int
    pod: str


class Masquerade(Struct, frozen=True):
    """What is translated. `ports` (protocol, port) and `ranges` (protocol, first, last) are all that reaches the guest,
    or everything when there are none."""

    names: Names
    guest_mac: str
    addresses: tuple[GuestAddress, ...]
    ports: frozenset[tuple[int, int]] = frozenset()
    ranges: frozenset[tuple[int, int, int]] = frozenset()
    # Whether a mesh's sidecar stands before the guest.
    meshed: bool = False

    def of(self, version: int) -> GuestAddress | None:
        """The addresses of that version."""
        return next((each for each in self.addresses if each.version == version), None)

    @property
    def is_open(self) -> bool:
        """Whether everything reaches the guest."""
        return not self.ports and not self.ranges

    def lets_in(self, protocol: int, port: int) -> bool:
        """Whether that port reaches the guest."""
        within = any(kind == protocol and first <= port <= last for kind, first, last in self.ranges)
        return self.is_open or within or (protocol, port) in self.ports


def port_keys(wanted: Masquerade) -> dict[str, tuple[bytes, ...]]:
    """What is in the sets of the NAT table."""
    return {PORTS.name: tuple(port_key(*each) for each in sorted(wanted.ports))} if wanted.ports else {}


def nat_table(wanted: Masquerade) -> Table:
    """The guest speaks to the world from the Pod's addresses, and what comes to these goes to the guest.

    The Pod is a router for its guest alone: nobody else's packets pass, and nobody reaches the guest but by an address
    of the Pod's and, where ports are listed, by these.
    """
    names = wanted.names
    chains = (
        Chain("flows", Hook.PREROUTING, FLOWS_PRIORITY, tuple(_flows(wanted))),
        Chain("forward", Hook.FORWARD, FILTER_PRIORITY, tuple(_forward(names))),
        Chain("prerouting", Hook.PREROUTING, DESTINATION_NAT_PRIORITY, tuple(_make_inbound(wanted)), type="nat"),
        Chain("output", Hook.OUTPUT, DESTINATION_NAT_PRIORITY, tuple(_from_pod(wanted)), type="nat"),
        Chain("postrouting", Hook.POSTROUTING, SOURCE_NAT_PRIORITY, tuple(_make_outbound(wanted)), type="nat"),
    )
    sets = tuple(FLOWS[each.version] for each in wanted.addresses)
    keys = sorted(wanted.ports)
    return _name_table(Family.INET, names, chains, (*sets, PORTS) if keys else sets, repr(keys))


def fence_table(wanted: Masquerade) -> Table:
    """The guest is heard with its own MAC and its own addresses alone, and never by the Pod's loopback.

    The bridge's packets of 127.0.0.0/8 would otherwise be let in: a process of the Pod reaches the guest by it.
    """
    tap = iifname_is(wanted.names.tap)
    rules = (
        (*frame_source_is_not(wanted.guest_mac), drop(Reason.MAC)),
        (*ethertype_is_neither(ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6), drop(Reason.PROTOCOL)),
        *_arp(wanted),
        *_ipv4(wanted),
        *_make_ipv6(wanted),
    )
    chain = Chain("prerouting", Hook.PREROUTING, FENCE_PRIORITY, tuple((*tap, *rule) for rule in rules))
    whole = counting(Table(Family.BRIDGE, "", (chain,), (IPV6_SENDERS,)))
    return _name_table(Family.BRIDGE, wanted.names, whole.chains, whole.sets)


def table_prefix(names: Names) -> str:
    """How the names of this NIC's tables begin, whatever is in them."""
    return f"{TABLE_PREFIX}{names.pod}_"


def _name_table(
    family: Family, names: Names, chains: tuple[Chain, ...], sets: tuple[Set, ...], keys: str = ""
) -> Table:
    digest = hashlib.sha256(repr((chains, sets, keys)).encode()).hexdigest()[:12]
    return Table(family, f"{table_prefix(names)}{digest}", chains, sets)


def _flows(wanted: Masquerade) -> Iterator[Rule]:
    for each in wanted.addresses:
        flood = begins_more_flows(each.version, MOST_FLOWS, FLOWS[each.version].name)
        yield (*iifname_is(wanted.names.bridge), *flood, DROP)


def _forward(names: Names) -> Iterator[Rule]:
    # The kernel does not translate a packet that it cannot place: that would leave with the guest's own address.
    yield (*iifname_is(names.bridge), *connection_is(INVALID), DROP)
    yield (*iifname_is_not(names.bridge), *oifname_is_not(names.bridge), DROP)
    unasked = connection_is(INVALID, NEW, UNTRACKED)
    yield (*iifname_is_not(names.bridge), *oifname_is(names.bridge), *unasked, *is_not_translated(), DROP)


def _make_inbound(wanted: Masquerade) -> Iterator[Rule]:
    for each in wanted.addresses:
        reaches = _make_reaching(wanted)
        if wanted.meshed:
            # All else comes by the sidecar, which is of the Pod.
            reaches = [goes_to_port(TCP, SSH)] if wanted.lets_in(TCP, SSH) else []
        where = (*iifname_is(wanted.names.pod), *is_for_host(), *is_version(each.version))
        for rule in reaches:
            yield (*where, *rule, *dnat_to(each.guest))


def _from_pod(wanted: Masquerade) -> Iterator[Rule]:
    """A process of the Pod reaches the guest by the loopback, as it would reach a container beside it."""
    own = wanted.of(4)
    if own is None:
        return
    yield from _of_the_sidecar(wanted)
    for address in (LOOPBACK, own.pod) if wanted.meshed else (LOOPBACK,):
        for rule in _make_reaching(wanted):
            yield (*destination_is(address), *rule, *dnat_to(own.guest))


def _make_outbound(wanted: Masquerade) -> Iterator[Rule]:
    for each in wanted.addresses:
        yield (*source_is(each.guest), MASQUERADE)
    own, to_guest = wanted.of(4), oifname_is(wanted.names.bridge)
    if own is None:
        return
    for rule in _of_the_sidecar(wanted):
        yield (*to_guest, *rule)
    for address in (LOOPBACK, SIDECAR_SOURCE) if wanted.meshed else (LOOPBACK,):
        for rule in _make_reaching(wanted):
            yield (*to_guest, *source_is(address), *rule, *snat_to(own.gateway))


def _make_reaching(wanted: Masquerade) -> list[Rule]:
    """What a packet has to be to reach the guest: one of these. A set of single ports costs the same for any number."""
    if wanted.is_open:
        return [()]
    singles: list[Rule] = [goes_to_port_in(PORTS.name)] if wanted.ports else []
    return [*singles, *(goes_to_port_within(*each) for each in sorted(wanted.ranges))]


def _of_the_sidecar(wanted: Masquerade) -> Iterator[Rule]:
    if wanted.meshed and wanted.is_open:
        for port in SIDECAR_PORTS:
            yield (*source_is(LOOPBACK), *goes_to_port(TCP, port), ACCEPT)


def _arp(wanted: Masquerade) -> Iterator[Rule]:
    arp, own = ethertype_is(ETHERTYPE_ARP), wanted.of(4)
    if own is not None:
        yield (*arp, *arp_mac_is_not(wanted.guest_mac), drop(Reason.ARP))
        # A host that asks whether an address is free asks from 0.0.0.0 (RFC 5227).
        for address in (own.guest, NOBODY.partition("/")[0]):
            yield (*arp, *arp_address_is(address), ACCEPT)
    yield (*arp, drop(Reason.ARP))


def _ipv4(wanted: Masquerade) -> Iterator[Rule]:
    ipv4, own = ethertype_is(ETHERTYPE_IPV4), wanted.of(4)
    if own is not None:
        yield (*ipv4, *frame_destination_within("127.0.0.0/8"), drop(Reason.ADDRESS))
        yield (*ipv4, *frame_source_within(f"{own.guest}/32"), ACCEPT)
        yield (*ipv4, *frame_source_within(NOBODY), *udp_port_within(*_DHCP_SERVER), ACCEPT)
    yield (*ipv4, drop(Reason.ADDRESS))


def _make_ipv6(wanted: Masquerade) -> Iterator[Rule]:
    ipv6, own = ethertype_is(ETHERTYPE_IPV6), wanted.of(6)
    if own is not None:
        for types in _OF_ROUTERS:
            yield (*ipv6, *icmpv6_type_within(*types), drop(Reason.ROUTER))
        yield (*ipv6, *frame_source_within(f"{own.guest}/128"), ACCEPT)
        yield (*ipv6, *frame_source_within("::/128"), *icmpv6_type_within(*_ICMPV6), ACCEPT)
        # Link-local addresses are the guest's to choose, as many as the Pod can remember.
        yield (*ipv6, *frame_source_within("fe80::/10"), *ipv6_source_fits(IPV6_SENDERS.name), ACCEPT)
    yield (*ipv6, drop(Reason.ADDRESS))
