"""How NetworkPolicies are enforced, as nftables tables whose rules never change: sets and maps do.

A new connection of a Pod costs the same with one policy as with a thousand: the Pod's address leads to its group, group
and port to the addresses that may be at the other end. Packets of connections that are known pass. Pure;
`policy_network` puts the tables into the kernel.

Each version of IP has a table of its own, with sets of the same names; a group has the same number in both. What two
Pods send each other passes the node bridge, which gives it to the host where it matters: see `policy_bridge_rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace  # noqa: TID251 - of dataclasses: launchers do without msgspec
from typing import Final

from msgspec import Struct

from kvedge.network.binding.port_rules import FILTER_PRIORITY
from kvedge.network.drop_rules import count_by
from kvedge.network.nft.nft_nat_rules import connection_is
from kvedge.network.nft.nft_rules import (
    ACCEPT,
    DESTINATION,
    DROP,
    REGISTER,
    REGISTER32,
    SOURCE,
    address_key,
    icmpv6_type_within,
    iifname_is,
    iifname_is_not,
    lookup,
    meta,
    oifname_is,
    oifname_is_not,
    payload,
)
from kvedge.network.nft.nft_tables import Chain, Expression, Family, Hook, Rule, Set, Table
from kvedge.network.policies.address_ranges import Range, Ranges, of_version

PROTOCOLS: Final = {"TCP": 6, "UDP": 17, "SCTP": 132}
# Stands for every protocol without ports.
PORTLESS: Final = 0
LAST_PORT: Final = 65535


class Passage(Struct, frozen=True, order=True):
    """What may pass: of one protocol, to ports from `first` to `last`, with these addresses at the other end.

    The ranges of `peers` are sorted and apart from each other.
    """

    protocol: int
    first: int
    last: int
    peers: Ranges


# All that may pass in one direction: sorted, no port twice.
Traffic = tuple[Passage, ...]


class PodTraffic(Struct, frozen=True):
    """One Pod: its address, the host's end of its pair, and what reaches and leaves it; None: everything does."""

    address: str
    port: str
    ingress: Traffic | None = None
    egress: Traffic | None = None
    # Empty where the Pod has none.
    ipv6_address: str = ""

    @property
    def is_free(self) -> bool:
        """Whether no policy is about it."""
        return self.ingress is None and self.egress is None

    def address_of(self, version: int) -> str:
        """Its address of that version of IP; empty for none."""
        return self.address if version == 4 else self.ipv6_address


_ADDRESS: Final = ("ipv4_addr", 4)
# Pods into which, and out of which, everything may pass; which group the other ones belong to.
FREE_IN: Final = Set("free_in", (_ADDRESS,))
FREE_OUT: Final = Set("free_out", (_ADDRESS,))
GROUPS_IN: Final = Set("groups_in", (_ADDRESS,), data=(("mark", 4),))
GROUPS_OUT: Final = Set("groups_out", (_ADDRESS,), data=(("mark", 4),))
# Pods that may reach themselves, by a Service: each does.
ITSELF: Final = Set("itself", (_ADDRESS, _ADDRESS))
# Group, protocol and port lead to peers: to a number that stands for some addresses; that number and an address.
# To nft these are numbers of some bytes, as ranges of several fields are nothing that it knows.
PASSAGES: Final = Set("passages", (("integer", 12),), data=(("mark", 4),), ranges=True)
PEERS: Final = Set("peers", (("integer", 8),), ranges=True)
# Which protocols have ports.
WITH_PORTS: Final = Set("with_ports", (("inet_proto", 1),))
# Packets that were dropped, counted by the address of the Pod for an hour after the last one. A guest may make up
# addresses to send to: there are never more counts than a look at them can read at once.
_MOST_DENIED: Final = 4096
DENIED_OUT: Final = Set("kvedge_denied_out", (_ADDRESS,), most=_MOST_DENIED, seconds=3600)
DENIED_IN: Final = Set("kvedge_denied_in", (_ADDRESS,), most=_MOST_DENIED, seconds=3600)
_FILLED: Final = (FREE_IN, FREE_OUT, GROUPS_IN, GROUPS_OUT, ITSELF, PASSAGES, PEERS, WITH_PORTS)
_SETS: Final = (*_FILLED, DENIED_OUT, DENIED_IN)
# Fields with an address, as they are in the table of IPv6.
_IN_IPV6: Final = {_ADDRESS: ("ipv6_addr", 16), PEERS.fields[0]: ("integer", 20)}

_NETWORK, _TRANSPORT = 1, 2
_META_L4PROTO, _META_MARK = 16, 3
_ESTABLISHED, _RELATED = 2, 4
# Four-byte registers in which the fields of a key lie, one behind the other; what a key leads to takes its first.
_FIRST, _SECOND, _THIRD = REGISTER32, REGISTER32 + 1, REGISTER32 + 2
# Where the packet's mark is kept meanwhile.
_KEPT: Final = REGISTER32 + 8
# Of ICMPv6: a neighbour is asked for, and answers.
NEIGHBOURS: Final = (135, 136)
# Packets that leave a Pod are judged first, then packets that reach one.
_LEAVING, _REACHING = FILTER_PRIORITY, FILTER_PRIORITY + 1

# By the name of a set: what is in it.
Elements = Mapping[str, frozenset[bytes]]


def filter_table(name: str, bridge: str, version: int = 4) -> Table:
    """What is forwarded from the node bridge, and to it; the node itself is no router here: it may reach its Pods."""
    source, destination = payload(_NETWORK, *SOURCE[version]), payload(_NETWORK, *DESTINATION[version])
    known = (*connection_is(_ESTABLISHED, _RELATED), ACCEPT)
    after_source = _FIRST + SOURCE[version][1] // 4
    both = (payload(_NETWORK, *SOURCE[version], _FIRST), payload(_NETWORK, *DESTINATION[version], after_source))
    itself = (*both, lookup(ITSELF.name, _FIRST, inverted=False), ACCEPT)
    # Where the host filters bridged frames, neighbours who ask for each other's MACs come by here.
    on_bridge = (*iifname_is(bridge), *oifname_is(bridge), *icmpv6_type_within(*NEIGHBOURS), ACCEPT)
    neighbours = (on_bridge,) if version == 6 else ()
    leaving = (
        known,
        (*iifname_is_not(bridge), ACCEPT),
        *neighbours,
        itself,
        (source, lookup(FREE_OUT.name, REGISTER, inverted=False), ACCEPT),
        *_make_passing(GROUPS_OUT, of=SOURCE[version], peer=DESTINATION[version]),
        count_by(source, DENIED_OUT),
        (DROP,),
    )
    reaching = (
        known,
        (*oifname_is_not(bridge), ACCEPT),
        *neighbours,
        itself,
        (destination, lookup(FREE_IN.name, REGISTER, inverted=False), ACCEPT),
        *_make_passing(GROUPS_IN, of=DESTINATION[version], peer=SOURCE[version]),
        count_by(destination, DENIED_IN),
        (DROP,),
    )
    chains = (
        Chain("leaving", Hook.FORWARD, _LEAVING, leaving),
        Chain("reaching", Hook.FORWARD, _REACHING, reaching),
    )
    if version == 4:
        return Table(Family.IP, name, chains, _SETS)
    sets = (replace(each, fields=tuple(_IN_IPV6.get(field, field) for field in each.fields)) for each in _SETS)
    return Table(Family.IP6, name, chains, tuple(sets))


def filter_elements(pods: Iterable[PodTraffic], numbers: Mapping[object, int], version: int = 4) -> Elements:
    """The contents of that version's table; `numbers` has one for all of :func:`list_numbered`."""
    found: dict[str, set[bytes]] = {known.name: set() for known in _FILLED}
    found[WITH_PORTS.name] = {bytes([each]) for each in PROTOCOLS.values()}
    for pod in pods:
        if not pod.address_of(version):
            continue
        address = address_key(pod.address_of(version))
        found[ITSELF.name].add(address * 2)
        ways = ((pod.ingress, FREE_IN, GROUPS_IN), (pod.egress, FREE_OUT, GROUPS_OUT))
        for traffic, free, groups in ways:
            if traffic is None:
                found[free.name].add(address)
            else:
                found[groups.name].add(address + _number(numbers[traffic]))
    for content, number in numbers.items():
        if content and isinstance(content, tuple):
            if isinstance(content[0], Passage):
                found[PASSAGES.name].update(_passage(each, number, numbers) for each in content)
            else:
                found[PEERS.name].update(_peers(each, number, version) for each in of_version(content, version))
    return {name: frozenset(each) for name, each in found.items()}


def list_numbered(pods: Iterable[PodTraffic]) -> Iterator[object]:
    """List the contents that need a number: each different traffic, and the peers of each passage."""
    for pod in pods:
        for traffic in (pod.ingress, pod.egress):
            if traffic is not None:
                yield traffic
                yield from (passage.peers for passage in traffic)


def _passage(passage: Passage, number: int, numbers: Mapping[object, int]) -> bytes:
    key = (number << 64) | (passage.protocol << 56)
    behind = key + ((passage.last + 1) << 16)
    return (key | passage.first << 16).to_bytes(12) + behind.to_bytes(12) + _number(numbers[passage.peers])


def _peers(peers: Range, number: int, version: int) -> bytes:
    (first, last), length = peers, SOURCE[version][1]
    begin = number << 8 * length
    return (begin + first).to_bytes(4 + length) + (begin + last + 1).to_bytes(4 + length)


def _number(number: int) -> bytes:
    return number.to_bytes(4)


def _make_passing(groups: Set, *, of: tuple[int, int], peer: tuple[int, int]) -> tuple[Rule, Rule]:
    """What the group of the address at `of` (offset and length) lets pass, for protocols with ports, and for others."""
    protocol = meta(_META_L4PROTO, _SECOND)
    group = (payload(_NETWORK, *of, _FIRST), *_lead(groups))
    portless = Expression("immediate", {"dreg": _SECOND, "data": bytes(8)})
    peers = (
        *_lead(PASSAGES),
        payload(_NETWORK, *peer, _SECOND),
        lookup(PEERS.name, _FIRST, inverted=False),
        _mark_from(_KEPT),
        ACCEPT,
    )
    has_ports, has_none = (
        (protocol, lookup(WITH_PORTS.name, _SECOND, inverted=each), meta(_META_MARK, _KEPT)) for each in (False, True)
    )
    return (
        (*has_ports, *group, protocol, payload(_TRANSPORT, 2, 2, _THIRD), *peers),
        (*has_none, *group, portless, *peers),
    )


def _lead(known_as: Set) -> Rule:
    """From the key in the first registers to the number that it leads to, which takes the first one's place.

    It goes by way of the packet's mark, which is put back before the packet passes: otherwise `nft list` does not know
    how long the number is, and aborts.
    """
    found = Expression("lookup", {"set": known_as.name, "sreg": _FIRST, "dreg": _FIRST})
    return found, _mark_from(_FIRST), meta(_META_MARK, _FIRST)


def _mark_from(register: int) -> Expression:
    return Expression("meta", {"key": _META_MARK, "sreg": register})
