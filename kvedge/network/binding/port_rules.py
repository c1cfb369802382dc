"""What passes on the node bridge of one box, and how it leaves: anti-spoofing per port, and NAT, as nftables tables.

Pure; `pod_tables` names them for the plans of the node network.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from kvedge.network.address_plan import gateway_address
from kvedge.network.dhcp.dhcp_plan import parse_mac
from kvedge.network.drop_rules import Reason, counting, drop
from kvedge.network.nft.nft_port_rules import (
    arp_address_of_port,
    arp_mac_of_port,
    frame_source_of_port,
    match_advertised_of_port,
    port_address_key,
    port_mac_key,
    source_of_port,
)
from kvedge.network.nft.nft_rules import (
    DROP,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    MASQUERADE,
    address_key,
    begins_more_flows_than,
    comes_more_often_than,
    destination_not_in,
    destination_not_within,
    destination_within,
    ethertype_is,
    ethertype_is_neither,
    icmpv6_type_within,
    iifname_is,
    match_advertised_outside,
    match_advertised_within,
    oifname_is,
    oifname_is_not,
    source_not_within,
    source_within,
    udp_port_within,
)
from kvedge.network.nft.nft_tables import Chain, Family, Hook, Rule, Set, Table

# nft's priorities: before others see a frame; where source NAT belongs.
ANTI_SPOOFING_PRIORITY: Final = -300
SOURCE_NAT_PRIORITY: Final = 100
# After the kernel has looked up the connection (-200), before anything is done for it.
FLOWS_PRIORITY: Final = -150
FILTER_PRIORITY: Final = 0
# A host of one gigabyte tracks 65,536 connections, and refuses everybody's beyond these: sixteen guests with all that
# they may have at once fit into it. A guest that serves thousands is still far below; each takes about 400 bytes, and
# looking for those that have ended takes about a millisecond for so many, at most once per tick of the clock.
MOST_FLOWS: Final = 4096
# Of questions to the box's name server, whose socket holds less than 300 packets of all guests: a flood that comes so
# far takes its neighbours' places there.
NAMES_PORT: Final = 53
QUESTIONS_PER_SECOND: Final = 200
QUESTIONS_AT_ONCE: Final = 100
NOBODY: Final = "0.0.0.0"
NOBODY_IN_IPV6: Final = "::"
# The node bridge's own, by which guests know their router: no guest says that it has it.
ROUTER: Final = "fe80::1"
ROUTER_ALONE: Final = f"{ROUTER}/128"
LINK_LOCAL: Final = "fe80::/10"
# Of ICMPv6: what routers say and are asked, what neighbours say of themselves, and what leads astray.
ROUTER_MESSAGES: Final = (133, 134)
NEIGHBOUR_ANSWER: Final = (136, 136)
REDIRECT: Final = (137, 137)
# Addresses that are nobody's but the site's: others send no answer there, so that the host speaks for its guests.
SITE_LOCAL: Final = IPv6Network("fc00::/7")


# The addresses of the present Pods, and everybody's; how many connections each Pod has.
HOSTS: Final = Set("hosts", (("ipv4_addr", 4),))
FLOWS: Final = Set("flows", (("ipv4_addr", 4),), most=65_535)
HOSTS_OF_IPV6: Final = Set("hosts", (("ipv6_addr", 16),))
FLOWS_OF_IPV6: Final = Set("flows", (("ipv6_addr", 16),), most=65_535)
# How often each Pod asks for names.
QUESTIONS: Final = Set("questions", (("ipv4_addr", 4),), most=65_535, seconds=60)


def nat_table(name: str, cidr: str, bridge: str, *, limits_flows: bool = True, limits_questions: bool = True) -> Table:
    """What leaves the bridge for elsewhere does so with the host's address, unless the Pods' addresses are known there.

    No Pod has more than its share of the connections that the host can track, nor of the box's name server, unless the
    kernel cannot count them (`limits_flows`, `limits_questions`). Nothing is forwarded to an address of the bridge's
    that nobody has: each would be a neighbour for whom the host looks, and it can look for a thousand.
    """
    network = ip_network(cidr)
    hosts, counts = (HOSTS, FLOWS) if network.version == 4 else (HOSTS_OF_IPV6, FLOWS_OF_IPV6)
    rule = (
        *source_within(cidr),
        *destination_not_within(cidr),
        *oifname_is_not(bridge),
        MASQUERADE,
    )
    flood = (*iifname_is(bridge), *begins_more_flows_than(MOST_FLOWS, counts.name, network.version), DROP)
    is_not_there = destination_not_in(hosts.name, network.version)
    to_nobody = (*oifname_is(bridge), *destination_within(cidr), *is_not_there, DROP)
    early, sets = ((flood,), (hosts, counts)) if limits_flows else ((), (hosts,))
    if limits_questions and network.version == 4:
        early, sets = (*early, _asks_too_often(cidr, bridge)), (*sets, QUESTIONS)
    chains = (
        *((Chain("prerouting", Hook.PREROUTING, FLOWS_PRIORITY, early),) if early else ()),
        Chain("forward", Hook.FORWARD, FILTER_PRIORITY, (to_nobody,)),
        Chain("postrouting", Hook.POSTROUTING, SOURCE_NAT_PRIORITY, (rule,) if is_translated(cidr) else (), type="nat"),
    )
    family = Family.IP if network.version == 4 else Family.IP6
    return Table(family, name, chains, sets)


def _asks_too_often(cidr: str, bridge: str) -> Rule:
    """The name server has IPv4 alone; others than its own network's guests are none of its clients."""
    return (
        *iifname_is(bridge),
        *destination_within(f"{gateway_address(cidr)}/32"),
        *udp_port_within(NAMES_PORT, NAMES_PORT),
        *comes_more_often_than(QUESTIONS_PER_SECOND, QUESTIONS_AT_ONCE, QUESTIONS.name),
        DROP,
    )


def is_translated(cidr: str) -> bool:
    """Whether others see the host's address instead of those of this network: IPv4, and IPv6 of the site alone."""
    network = ip_network(cidr)
    return isinstance(network, IPv4Network) or network.subnet_of(SITE_LOCAL)


# Which port has which MAC; which port speaks from which address.
PORT_MACS: Final = Set("port_macs", (("ifname", 16), ("ether_addr", 6)))
PORT_ADDRESSES: Final = Set("port_addresses", (("ifname", 16), ("ipv4_addr", 4)))
PORT_IPV6_ADDRESSES: Final = Set("port_ipv6_addresses", (("ifname", 16), ("ipv6_addr", 16)))


def port_table(name: str, prefix: str, *, ipv6: bool = False) -> Table:
    """No Pod speaks with an address or a MAC but its own, nor anything but IPv4 and ARP, and IPv6 where there is any.

    `prefix` begins the names of the ports. A VMI may name its MAC: its port is told of it when the Pod is attached.
    """
    port = iifname_is(prefix + "*")
    arp, ipv4 = ethertype_is(ETHERTYPE_ARP), ethertype_is(ETHERTYPE_IPV4)
    spoken = (ETHERTYPE_IPV4, ETHERTYPE_ARP, *((ETHERTYPE_IPV6,) if ipv6 else ()))
    rules = (
        (*port, *ethertype_is_neither(*spoken), drop(Reason.PROTOCOL)),
        (*port, *frame_source_of_port(PORT_MACS.name, inverted=True), drop(Reason.MAC)),
        (*port, *arp, *arp_mac_of_port(PORT_MACS.name, inverted=True), drop(Reason.ARP)),
        (*port, *arp, *arp_address_of_port(PORT_ADDRESSES.name, inverted=True), drop(Reason.ARP)),
        (*port, *ipv4, *source_of_port(PORT_ADDRESSES.name, inverted=True), drop(Reason.ADDRESS)),
        *(_of_ipv6(port) if ipv6 else ()),
    )
    chain = Chain("prerouting", Hook.PREROUTING, ANTI_SPOOFING_PRIORITY, rules)
    sets = (PORT_MACS, PORT_ADDRESSES, *((PORT_IPV6_ADDRESSES,) if ipv6 else ()))
    return counting(Table(Family.BRIDGE, name, (chain,), sets))


def _of_ipv6(port: Rule) -> Sequence[Rule]:
    """The same for IPv6. A guest makes its link-local address itself, so any is its own but the router's."""
    ipv6, said = ethertype_is(ETHERTYPE_IPV6), icmpv6_type_within(*NEIGHBOUR_ANSWER)
    foreign = match_advertised_of_port(PORT_IPV6_ADDRESSES.name, inverted=True)
    spoofed = source_of_port(PORT_IPV6_ADDRESSES.name, inverted=True, version=6)
    return (
        (*port, *ipv6, *icmpv6_type_within(*ROUTER_MESSAGES), drop(Reason.ROUTER)),
        (*port, *ipv6, *icmpv6_type_within(*REDIRECT), drop(Reason.ROUTER)),
        (*port, *ipv6, *said, *match_advertised_within(ROUTER_ALONE), drop(Reason.NEIGHBOUR)),
        (*port, *ipv6, *said, *match_advertised_outside(LINK_LOCAL), *foreign, drop(Reason.NEIGHBOUR)),
        (*port, *ipv6, *source_within(ROUTER_ALONE), drop(Reason.ADDRESS)),
        (*port, *ipv6, *source_not_within(LINK_LOCAL), *spoofed, drop(Reason.ADDRESS)),
    )


def keys_of(port: str, address: str, mac: str, ipv6_address: str = "") -> dict[str, tuple[bytes, ...]]:
    """What one Pod adds to the sets. Everybody may probe an address before it has one (RFC 5227), as nobody."""
    keys = {
        PORT_MACS.name: (port_mac_key(port, parse_mac(mac)),),
        PORT_ADDRESSES.name: tuple(port_address_key(port, allowed) for allowed in (address, NOBODY)),
    }
    if ipv6_address:
        said = (ipv6_address, NOBODY_IN_IPV6)
        keys[PORT_IPV6_ADDRESSES.name] = tuple(port_address_key(port, allowed) for allowed in said)
    return keys


def host_keys(*addresses: str) -> dict[str, tuple[bytes, ...]]:
    """What Pods of these addresses add to the sets of the way out."""
    return {HOSTS.name: tuple(address_key(address) for address in addresses)}
