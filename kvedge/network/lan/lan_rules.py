"""What guests may say on the networks besides the Pod network: one nftables table for all their ports.

Pure; `lan_plan` puts the table into its steps. A guest may have any address there, as nobody gives it one. It has its
own MAC alone, no VLAN but its port's, and it is no switch. On a LAN that is the operator's it is no DHCP server and no
router for others either, unless the network says so.
"""

from __future__ import annotations

from typing import Final

from kvedge.network.dhcp.dhcp_plan import parse_mac
from kvedge.network.nft_rules import (
    DROP,
    ETHERTYPE_ARP,
    ETHERTYPE_PROVIDER_VLAN,
    ETHERTYPE_VLAN,
    Chain,
    Family,
    Hook,
    Set,
    Table,
    arp_mac_of_port,
    ethertype_is,
    frame_carries_tag,
    frame_is_for_bridges,
    frame_source_of_port,
    icmpv6_type_within,
    iifname_is,
    iifname_not_in,
    link_key,
    port_mac_key,
    udp_port_within,
)

# Before others see a frame, and before the bridge learns from it.
ANTI_SPOOFING_PRIORITY: Final = -300
# What servers send to: a client of DHCP, and one of DHCPv6.
CLIENT_PORTS: Final = (68, 546)
ROUTER_ADVERTISEMENT: Final = 134
REDIRECT: Final = 137
# Which port has which MAC; which ports may be servers.
PORT_MACS: Final = Set("port_macs", (("ifname", 16), ("ether_addr", 6)))
SERVERS: Final = Set("servers", (("ifname", 16),))


def lan_table(name: str, prefix: str) -> Table:
    """The rules for all ports whose names begin with `prefix`."""
    port = iifname_is(prefix + "*")
    refused = (
        frame_source_of_port(PORT_MACS.name, inverted=True),
        (*ethertype_is(ETHERTYPE_ARP), *arp_mac_of_port(PORT_MACS.name, inverted=True)),
        frame_is_for_bridges(),
        frame_carries_tag(ETHERTYPE_VLAN),
        frame_carries_tag(ETHERTYPE_PROVIDER_VLAN),
    )
    servers = (
        *(udp_port_within(number, number) for number in CLIENT_PORTS),
        *(icmpv6_type_within(number, number) for number in (ROUTER_ADVERTISEMENT, REDIRECT)),
    )
    rules = (
        *((*port, *what, DROP) for what in refused),
        *((*port, *iifname_not_in(SERVERS.name), *what, DROP) for what in servers),
    )
    chain = Chain("prerouting", Hook.PREROUTING, ANTI_SPOOFING_PRIORITY, rules)
    return Table(Family.BRIDGE, name, (chain,), (PORT_MACS, SERVERS))


def lan_keys(port: str, mac: str, *, is_server: bool) -> dict[str, tuple[bytes, ...]]:
    """What one port adds to the sets."""
    keys: dict[str, tuple[bytes, ...]] = {PORT_MACS.name: (port_mac_key(port, parse_mac(mac)),)}
    if is_server:
        keys[SERVERS.name] = (link_key(port),)
    return keys
