"""What guests may say on the networks besides the Pod network: one nftables table for all their ports.

Pure; `lan_plan` puts the table into its steps. A guest may have any address there, unless the network gives it one and
keeps it to that, which is IPv4 then. It has its own MAC alone, no VLANs but its port's, and it is no switch. On a LAN
that is the operator's it is no DHCP server and no router for others either, unless the network says so.
"""

from __future__ import annotations

from typing import Final

from kvedge.network.binding.port_rules import NOBODY, PORT_ADDRESSES
from kvedge.network.dhcp.dhcp_plan import parse_mac
from kvedge.network.drop_rules import Reason, counting, drop
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.lan.vlan_trunk import vlans_of
from kvedge.network.nft.nft_port_rules import (
    arp_address_of_port,
    arp_mac_of_port,
    frame_source_of_port,
    port_address_key,
    port_mac_key,
    port_tag_key,
    source_of_port,
    tag_of_port,
)
from kvedge.network.nft.nft_rules import (
    DROP,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    ETHERTYPE_PROVIDER_VLAN,
    ETHERTYPE_VLAN,
    ethertype_is,
    ethertype_is_neither,
    frame_carries_tag,
    frame_is_for_bridges,
    icmpv6_type_within,
    iifname_is,
    iifname_not_in,
    link_key,
    udp_port_within,
)
from kvedge.network.nft.nft_tables import Chain, Family, Hook, Set, Table

# Before others see a frame, and before the bridge learns from it.
ANTI_SPOOFING_PRIORITY: Final = -300
# What servers send to: a client of DHCP, and one of DHCPv6.
CLIENT_PORTS: Final = (68, 546)
ROUTER_ADVERTISEMENT: Final = 134
REDIRECT: Final = 137
# Which port has which MAC; which VLANs it carries with their tags, numbers of two bytes as nft's ports are; which ports
# may be servers; which ports are on a bridge of the host's own.
PORT_MACS: Final = Set("port_macs", (("ifname", 16), ("ether_addr", 6)))
TRUNKS: Final = Set("trunks", (("ifname", 16), ("inet_service", 2)))
SERVERS: Final = Set("servers", (("ifname", 16),))
WITH_HOST: Final = Set("with_host", (("ifname", 16),))
# Which ports may have any address.
ANY_ADDRESS: Final = Set("any_address", (("ifname", 16),))


def lan_table(name: str, prefix: str) -> Table:
    """The rules for all ports whose names begin with `prefix`.

    A host answers for each of its addresses on every link, also on a bridge that has none: nothing that guests say
    among themselves reaches it.
    """
    port = iifname_is(prefix + "*")
    refused = (
        (Reason.MAC, frame_source_of_port(PORT_MACS.name, inverted=True)),
        (Reason.ARP, (*ethertype_is(ETHERTYPE_ARP), *arp_mac_of_port(PORT_MACS.name, inverted=True))),
        (Reason.BRIDGE, frame_is_for_bridges()),
        (Reason.TAG, (*frame_carries_tag(ETHERTYPE_VLAN), *tag_of_port(TRUNKS.name, inverted=True))),
        # A frame behind one tag is judged as a frame without; behind a second tag it would not be.
        (Reason.TAG, ethertype_is(ETHERTYPE_VLAN)),
        (Reason.TAG, ethertype_is(ETHERTYPE_PROVIDER_VLAN)),
        (Reason.TAG, frame_carries_tag(ETHERTYPE_PROVIDER_VLAN)),
    )
    servers = (
        *((Reason.DHCP_SERVER, udp_port_within(number, number)) for number in CLIENT_PORTS),
        *((Reason.ROUTER, icmpv6_type_within(number, number)) for number in (ROUTER_ADVERTISEMENT, REDIRECT)),
    )
    arp, ipv4 = ethertype_is(ETHERTYPE_ARP), ethertype_is(ETHERTYPE_IPV4)
    foreign = (
        (Reason.PROTOCOL, ethertype_is_neither(ETHERTYPE_IPV4, ETHERTYPE_ARP)),
        (Reason.ARP, (*arp, *arp_address_of_port(PORT_ADDRESSES.name, inverted=True))),
        (Reason.ADDRESS, (*ipv4, *source_of_port(PORT_ADDRESSES.name, inverted=True))),
    )
    rules = (
        *((*port, *what, drop(reason)) for reason, what in refused),
        *((*port, *iifname_not_in(ANY_ADDRESS.name), *what, drop(reason)) for reason, what in foreign),
        *((*port, *iifname_not_in(SERVERS.name), *what, drop(reason)) for reason, what in servers),
    )
    chains = (
        Chain("prerouting", Hook.PREROUTING, ANTI_SPOOFING_PRIORITY, rules),
        Chain("input", Hook.INPUT, ANTI_SPOOFING_PRIORITY, ((*port, *iifname_not_in(WITH_HOST.name), DROP),)),
    )
    return counting(
        Table(Family.BRIDGE, name, chains, (PORT_MACS, TRUNKS, SERVERS, WITH_HOST, ANY_ADDRESS, PORT_ADDRESSES))
    )


def lan_keys(port: str, mac: str, network: LanConfig, address: str = "") -> dict[str, tuple[bytes, ...]]:
    """What one port adds to the sets; `address`, with its prefix, is the guest's own where it is kept to one."""
    keys: dict[str, tuple[bytes, ...]] = {PORT_MACS.name: (port_mac_key(port, parse_mac(mac)),)}
    if network.trunk:
        keys[TRUNKS.name] = tuple(port_tag_key(port, vlan) for vlan in vlans_of(network.trunk))
    if network.servers:
        keys[SERVERS.name] = (link_key(port),)
    if network.filters:
        said = (address.partition("/")[0], NOBODY)
        keys[PORT_ADDRESSES.name] = tuple(port_address_key(port, allowed) for allowed in said if allowed)
    else:
        keys[ANY_ADDRESS.name] = (link_key(port),)
    if not network.made:
        keys[WITH_HOST.name] = (link_key(port),)
    return keys
