"""What passes on the node bridge of one box, and how it leaves: anti-spoofing per port, and NAT, as nftables tables.

Pure; `pod_network_plan` puts the tables into its steps.
"""

from __future__ import annotations

from typing import Final

from kvedge.network.dhcp.dhcp_plan import parse_mac
from kvedge.network.nft_rules import (
    DROP,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    MASQUERADE,
    Chain,
    Family,
    Hook,
    Set,
    Table,
    address_key,
    arp_address_of_port,
    arp_mac_of_port,
    begins_more_flows_than,
    destination_not_in,
    destination_not_within,
    destination_within,
    ethertype_is,
    ethertype_is_neither,
    frame_source_of_port,
    iifname_is,
    oifname_is,
    oifname_is_not,
    port_address_key,
    port_mac_key,
    source_of_port,
    source_within,
)

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
NOBODY: Final = "0.0.0.0"


# The addresses of the present Pods, and everybody's; how many connections each Pod has.
HOSTS: Final = Set("hosts", (("ipv4_addr", 4),))
FLOWS: Final = Set("flows", (("ipv4_addr", 4),), most=65_535)


def nat_table(name: str, cidr: str, bridge: str, *, limits_flows: bool = True) -> Table:
    """What leaves the bridge for elsewhere does so with the host's address.

    No Pod has more than its share of the connections that the host can track, unless the kernel cannot count them
    (`limits_flows`). Nothing is forwarded to an address of the
    bridge's that nobody has: each would be a neighbour for whom the host looks, and it can look for a thousand.
    """
    rule = (
        *source_within(cidr),
        *destination_not_within(cidr),
        *oifname_is_not(bridge),
        MASQUERADE,
    )
    flood = (*iifname_is(bridge), *begins_more_flows_than(MOST_FLOWS, FLOWS.name), DROP)
    to_nobody = (*oifname_is(bridge), *destination_within(cidr), *destination_not_in(HOSTS.name), DROP)
    flows = (Chain("prerouting", Hook.PREROUTING, FLOWS_PRIORITY, (flood,)),) if limits_flows else ()
    chains = (
        *flows,
        Chain("forward", Hook.FORWARD, FILTER_PRIORITY, (to_nobody,)),
        Chain("postrouting", Hook.POSTROUTING, SOURCE_NAT_PRIORITY, (rule,), type="nat"),
    )
    return Table(Family.IP, name, chains, (HOSTS, FLOWS) if limits_flows else (HOSTS,))


# Which port has which MAC; which port speaks from which address.
PORT_MACS: Final = Set("port_macs", (("ifname", 16), ("ether_addr", 6)))
PORT_ADDRESSES: Final = Set("port_addresses", (("ifname", 16), ("ipv4_addr", 4)))


def port_table(name: str, prefix: str) -> Table:
    """No Pod speaks with an address or a MAC but its own, nor anything but IPv4 and ARP.

    `prefix` begins the names of the ports. A VMI may name its MAC: its port is told of it when the Pod is attached.
    """
    port = iifname_is(prefix + "*")
    arp, ipv4 = ethertype_is(ETHERTYPE_ARP), ethertype_is(ETHERTYPE_IPV4)
    rules = (
        (*port, *ethertype_is_neither(ETHERTYPE_IPV4, ETHERTYPE_ARP), DROP),
        (*port, *frame_source_of_port(PORT_MACS.name, inverted=True), DROP),
        (*port, *arp, *arp_mac_of_port(PORT_MACS.name, inverted=True), DROP),
        (*port, *arp, *arp_address_of_port(PORT_ADDRESSES.name, inverted=True), DROP),
        (*port, *ipv4, *source_of_port(PORT_ADDRESSES.name, inverted=True), DROP),
    )
    chain = Chain("prerouting", Hook.PREROUTING, ANTI_SPOOFING_PRIORITY, rules)
    return Table(Family.BRIDGE, name, (chain,), (PORT_MACS, PORT_ADDRESSES))


def keys_of(port: str, address: str, mac: str) -> dict[str, tuple[bytes, ...]]:
    """What one Pod adds to the sets. Everybody may probe an address before it has one (RFC 5227), as nobody."""
    return {
        PORT_MACS.name: (port_mac_key(port, parse_mac(mac)),),
        PORT_ADDRESSES.name: tuple(port_address_key(port, allowed) for allowed in (address, NOBODY)),
    }


def host_keys(*addresses: str) -> dict[str, tuple[bytes, ...]]:
    """What Pods of these addresses add to the sets of the way out."""
    return {HOSTS.name: tuple(address_key(address) for address in addresses)}
