"""How NetworkPolicies are enforced, as two nftables tables whose rules never change: sets and maps do.

A new connection of a Pod costs the same with one policy as with a thousand: the Pod's address leads to its group, group
and port to the addresses that may be at the other end. Packets of connections that are known pass. Pure;
`policy_network` puts the tables into the kernel.

What two Pods send each other passes the node bridge, where no connections are known. So the bridge gives frames of
Pods that are isolated, and frames for these, to the host itself, which forwards them as it does with all other packets.

Policies know addresses of IPv4. Of IPv6, nothing new reaches or leaves a Pod in a direction in which it is isolated,
and nothing of it passes between a port of such a Pod and another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kvedge.network.binding.port_rules import ANTI_SPOOFING_PRIORITY, FILTER_PRIORITY
from kvedge.network.nft_nat_rules import connection_is
from kvedge.network.nft_rules import (
    ACCEPT,
    DESTINATION,
    DROP,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    REGISTER,
    REGISTER32,
    SOURCE,
    Chain,
    Expression,
    Family,
    Hook,
    Rule,
    Set,
    Table,
    address_key,
    compare,
    destination_not_in,
    destination_within,
    ethertype_is,
    ethertype_is_neither,
    iifname_is_not,
    iifname_not_in,
    link_key,
    lookup,
    meta,
    oifname_is_not,
    oifname_not_in,
    payload,
    port_address_key,
)
from kvedge.network.policies.address_ranges import Range, Ranges

PROTOCOLS: Final = {"TCP": 6, "UDP": 17, "SCTP": 132}
# Stands for every protocol without ports.
PORTLESS: Final = 0
LAST_PORT: Final = 65535


@dataclass(frozen=True, order=True)
class Passage:
    """What may pass: of one protocol, to ports from `first` to `last`, with these addresses at the other end.

    The ranges of `peers` are sorted and apart from each other.
    """

    protocol: int
    first: int
    last: int
    peers: Ranges


# All that may pass in one direction: sorted, no port twice.
Traffic = tuple[Passage, ...]


@dataclass(frozen=True)
class PodTraffic:
    """One Pod: its addresses, the host's end of its pair, and what reaches and leaves it; None: everything does."""

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
# The same as the first two, in the table for IPv6.
_IPV6_ADDRESS: Final = ("ipv6_addr", 16)
IPV6_FREE_IN: Final = Set(FREE_IN.name, (_IPV6_ADDRESS,))
IPV6_FREE_OUT: Final = Set(FREE_OUT.name, (_IPV6_ADDRESS,))
# Which protocols have ports.
WITH_PORTS: Final = Set("with_ports", (("inet_proto", 1),))

# Of the bridge's table: the ports and the addresses of Pods that no policy is about; for other ports, their addresses.
FREE_PORTS: Final = Set("free_ports", (("ifname", 16),))
FREE_HOSTS: Final = Set("free_hosts", (_ADDRESS,))
ISOLATED: Final = Set("isolated", (("ifname", 16), _ADDRESS))

_LINK, _NETWORK, _TRANSPORT = 0, 1, 2
_META_L4PROTO, _META_OIFNAME, _META_PKTTYPE, _META_MARK = 16, 7, 19, 3
_DIFFERENT: Final = 1
_ESTABLISHED, _RELATED = 2, 4
_SOURCE, _DESTINATION = 12, 16
# Four-byte registers in which the fields of a key lie, one behind the other; what a key leads to takes its first.
_FIRST, _SECOND, _THIRD = REGISTER32, REGISTER32 + 1, REGISTER32 + 2
# Where the packet's mark is kept meanwhile.
_KEPT: Final = REGISTER32 + 8
# After a frame was found to be its sender's own, and before connections are looked up where bridged frames are.
_TO_HOST_PRIORITY: Final = ANTI_SPOOFING_PRIORITY + 50
# What leaves a Pod is judged first, then what reaches one.
_LEAVING, _REACHING = FILTER_PRIORITY, FILTER_PRIORITY + 1

# By the name of a set: what is in it.
Elements = Mapping[str, frozenset[bytes]]


def filter_table(name: str, bridge: str) -> Table:
    """What is forwarded from the node bridge, and to it; the node itself is no router here: it may reach its Pods."""
    known = (*connection_is(_ESTABLISHED, _RELATED), ACCEPT)
    itself = (payload(_NETWORK, _SOURCE, 8, _FIRST), lookup(ITSELF.name, _FIRST, inverted=False), ACCEPT)
    leaving = (
        known,
        (*iifname_is_not(bridge), ACCEPT),
        itself,
        (payload(_NETWORK, _SOURCE, 4), lookup(FREE_OUT.name, REGISTER, inverted=False), ACCEPT),
        *_passing(GROUPS_OUT, of=_SOURCE, peer=_DESTINATION),
        (DROP,),
    )
    reaching = (
        known,
        (*oifname_is_not(bridge), ACCEPT),
        itself,
        (payload(_NETWORK, _DESTINATION, 4), lookup(FREE_IN.name, REGISTER, inverted=False), ACCEPT),
        *_passing(GROUPS_IN, of=_DESTINATION, peer=_SOURCE),
        (DROP,),
    )
    chains = (
        Chain("leaving", Hook.FORWARD, _LEAVING, leaving),
        Chain("reaching", Hook.FORWARD, _REACHING, reaching),
    )
    sets = (FREE_IN, FREE_OUT, GROUPS_IN, GROUPS_OUT, ITSELF, PASSAGES, PEERS, WITH_PORTS)
    return Table(Family.IP, name, chains, sets)


def ipv6_filter_table(name: str, bridge: str) -> Table:
    """What is forwarded in IPv6 from the node bridge, and to it: for Pods that are free in that direction."""
    known = (*connection_is(_ESTABLISHED, _RELATED), ACCEPT)
    leaving = (
        known,
        (*iifname_is_not(bridge), ACCEPT),
        (payload(_NETWORK, *SOURCE[6]), lookup(IPV6_FREE_OUT.name, REGISTER, inverted=False), ACCEPT),
        (DROP,),
    )
    reaching = (
        known,
        (*oifname_is_not(bridge), ACCEPT),
        (payload(_NETWORK, *DESTINATION[6]), lookup(IPV6_FREE_IN.name, REGISTER, inverted=False), ACCEPT),
        (DROP,),
    )
    chains = (
        Chain("leaving", Hook.FORWARD, _LEAVING, leaving),
        Chain("reaching", Hook.FORWARD, _REACHING, reaching),
    )
    return Table(Family.IP6, name, chains, (IPV6_FREE_IN, IPV6_FREE_OUT))


def bridge_table(name: str, prefix: str, mac: str, cidr: str) -> Table:
    """What passes between the node bridge's ports, whose names begin with `prefix`; `mac` is the bridge's own.

    Where the host filters bridged frames, one for a Service is turned round to its endpoint inside of the bridge, and
    has been judged when it gets to the last rule.
    """
    to_group = (payload(_LINK, 0, 1), _masked(b"\1"), compare(b"\0", _DIFFERENT))
    to_host = (*_write(bytes.fromhex(mac.replace(":", "")), _FRAME_DESTINATION), *_write(b"\0", _KIND_OF_PACKET))
    coming = (
        (*iifname_is_not(prefix + "*"), ACCEPT),
        (*ethertype_is_neither(ETHERTYPE_IPV4), ACCEPT),
        (*to_group, ACCEPT),
        (*iifname_not_in(FREE_PORTS.name), *to_host, ACCEPT),
        (*destination_within(cidr), *destination_not_in(FREE_HOSTS.name), *to_host),
    )
    port_and_destination = (meta(_META_OIFNAME, _FIRST), payload(_NETWORK, _DESTINATION, 4, _FIRST + 4))
    passing = (
        (*iifname_is_not(prefix + "*"), ACCEPT),
        (*oifname_is_not(prefix + "*"), ACCEPT),
        (*ethertype_is(ETHERTYPE_ARP), ACCEPT),
        (*ethertype_is(ETHERTYPE_IPV6), *iifname_not_in(FREE_PORTS.name), DROP),
        (*ethertype_is(ETHERTYPE_IPV6), *oifname_not_in(FREE_PORTS.name), DROP),
        (*iifname_not_in(FREE_PORTS.name), *to_group, DROP),
        (*oifname_not_in(FREE_PORTS.name), *to_group, DROP),
        (
            *oifname_not_in(FREE_PORTS.name),
            *port_and_destination,
            lookup(ISOLATED.name, _FIRST, inverted=True),
            DROP,
        ),
    )
    chains = (
        Chain("coming", Hook.PREROUTING, _TO_HOST_PRIORITY, coming),
        Chain("passing", Hook.FORWARD, FILTER_PRIORITY, passing),
    )
    return Table(Family.BRIDGE, name, chains, (FREE_PORTS, FREE_HOSTS, ISOLATED))


def bridge_elements(pods: Iterable[PodTraffic]) -> Elements:
    """The contents of the bridge's table."""
    ports, hosts, isolated = set[bytes](), set[bytes](), set[bytes]()
    for pod in pods:
        if pod.is_free:
            ports.add(link_key(pod.port))
            hosts.add(address_key(pod.address))
        else:
            isolated.add(port_address_key(pod.port, pod.address))
    return {
        FREE_PORTS.name: frozenset(ports),
        FREE_HOSTS.name: frozenset(hosts),
        ISOLATED.name: frozenset(isolated),
    }


def ipv6_elements(pods: Iterable[PodTraffic]) -> Elements:
    """The contents of the table for IPv6."""
    having = [(address_key(pod.ipv6_address), pod) for pod in pods if pod.ipv6_address]
    return {
        IPV6_FREE_IN.name: frozenset(key for key, pod in having if pod.ingress is None),
        IPV6_FREE_OUT.name: frozenset(key for key, pod in having if pod.egress is None),
    }


def filter_elements(pods: Iterable[PodTraffic], numbers: Mapping[object, int]) -> Elements:
    """The contents of the other table; `numbers` has one for all of :func:`numbered`."""
    found: dict[str, set[bytes]] = {known.name: set() for known in filter_table("", "").sets}
    found[WITH_PORTS.name] = {bytes([each]) for each in PROTOCOLS.values()}
    for pod in pods:
        address = address_key(pod.address)
        found[ITSELF.name].add(address * 2)
        ways = ((pod.ingress, FREE_IN, GROUPS_IN), (pod.egress, FREE_OUT, GROUPS_OUT))
        for traffic, free, groups in ways:
            if traffic is None:
                found[free.name].add(address)
            else:
                found[groups.name].add(address + _number(numbers[traffic]))
    for content, number in numbers.items():
        if content and isinstance(content, tuple):
            kept = found[PASSAGES.name] if isinstance(content[0], Passage) else found[PEERS.name]
            for each in content:
                kept.add(_passage(each, number, numbers) if isinstance(each, Passage) else _peers(each, number))
    return {name: frozenset(each) for name, each in found.items()}


def numbered(pods: Iterable[PodTraffic]) -> Iterator[object]:
    """What needs a number: each different traffic, and the peers of each passage."""
    for pod in pods:
        for traffic in (pod.ingress, pod.egress):
            if traffic is not None:
                yield traffic
                yield from (passage.peers for passage in traffic)


def _passage(passage: Passage, number: int, numbers: Mapping[object, int]) -> bytes:
    key = (number << 64) | (passage.protocol << 56)
    behind = key + ((passage.last + 1) << 16)
    return (key | passage.first << 16).to_bytes(12) + behind.to_bytes(12) + _number(numbers[passage.peers])


def _peers(peers: Range, number: int) -> bytes:
    first, last = peers
    return ((number << 32) | first).to_bytes(8) + ((number << 32) + last + 1).to_bytes(8)


def _number(number: int) -> bytes:
    return number.to_bytes(4)


def _passing(groups: Set, *, of: int, peer: int) -> tuple[Rule, Rule]:
    """What the group of the address at offset `of` lets pass, for protocols with ports, and for all others."""
    protocol = meta(_META_L4PROTO, _SECOND)
    group = (payload(_NETWORK, of, 4, _FIRST), *_lead(groups))
    portless = Expression("immediate", {"dreg": _SECOND, "data": bytes(8)})
    peers = (
        *_lead(PASSAGES),
        payload(_NETWORK, peer, 4, _SECOND),
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


def _masked(mask: bytes) -> Expression:
    length = len(mask)
    return Expression(
        "bitwise", {"sreg": REGISTER, "dreg": REGISTER, "len": length, "mask": mask, "xor": bytes(length)}
    )


_FRAME_DESTINATION: Final = Expression(
    "payload", {"sreg": REGISTER, "base": _LINK, "offset": 0, "len": 6, "csum_type": 0}
)
_KIND_OF_PACKET: Final = Expression("meta", {"key": _META_PKTTYPE, "sreg": REGISTER})


def _write(data: bytes, where: Expression) -> Rule:
    return Expression("immediate", {"dreg": REGISTER, "data": data}), where
