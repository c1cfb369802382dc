"""What passes between the ports of the node bridge while there are NetworkPolicies, as an nftables table.

The bridge knows no connections. So it gives frames of Pods that are isolated, and frames for these, to the host itself,
which forwards them as it does with all other packets, and judges them by `policy_rules`. How neighbours ask each other
for their MACs passes: ARP, and the two messages that IPv6 has for it. Pure; `policy_network` puts it into the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvedge.network.binding.port_rules import ANTI_SPOOFING_PRIORITY, FILTER_PRIORITY
from kvedge.network.nft.nft_port_rules import port_address_key
from kvedge.network.nft.nft_rules import (
    ACCEPT,
    DESTINATION,
    DROP,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    REGISTER,
    REGISTER32,
    address_key,
    compare,
    destination_not_in,
    destination_within,
    ethertype_is,
    ethertype_is_neither,
    icmpv6_type_within,
    iifname_is_not,
    iifname_not_in,
    link_key,
    lookup,
    meta,
    oifname_is_not,
    oifname_not_in,
    payload,
)
from kvedge.network.nft.nft_tables import Chain, Expression, Family, Hook, Rule, Set, Table
from kvedge.network.policies.policy_rules import NEIGHBOURS, Elements, PodTraffic

# The ports and the addresses of Pods that no policy is about; for other ports, their addresses.
FREE_PORTS: Final = Set("free_ports", (("ifname", 16),))
FREE_HOSTS: Final = Set("free_hosts", (("ipv4_addr", 4),))
ISOLATED: Final = Set("isolated", (("ifname", 16), ("ipv4_addr", 4)))
FREE_HOSTS_OF_IPV6: Final = Set("free_hosts_of_ipv6", (("ipv6_addr", 16),))
ISOLATED_OF_IPV6: Final = Set("isolated_of_ipv6", (("ifname", 16), ("ipv6_addr", 16)))
# By version of IP.
_ETHERTYPE: Final = {4: ETHERTYPE_IPV4, 6: ETHERTYPE_IPV6}
_FREE_HOSTS: Final = {4: FREE_HOSTS, 6: FREE_HOSTS_OF_IPV6}
_ISOLATED: Final = {4: ISOLATED, 6: ISOLATED_OF_IPV6}

_LINK, _NETWORK = 0, 1
_META_OIFNAME, _META_PKTTYPE = 7, 19
_DIFFERENT: Final = 1
# Four-byte registers in which the fields of a key lie, one behind the other.
_FIRST: Final = REGISTER32
_AFTER_NAME: Final = REGISTER32 + 4
# After a frame was found to be its sender's own, and before connections are looked up where bridged frames are.
_TO_HOST_PRIORITY: Final = ANTI_SPOOFING_PRIORITY + 50


def bridge_table(name: str, prefix: str, mac: str, cidr: str, ipv6_cidr: str = "") -> Table:
    """What passes between the node bridge's ports, whose names begin with `prefix`; `mac` is the bridge's own.

    Where the host filters bridged frames, one for a Service is turned round to its endpoint inside of the bridge, and
    has been judged when it gets to the last rules.
    """
    networks = {4: cidr, 6: ipv6_cidr} if ipv6_cidr else {4: cidr}
    known_types = [_ETHERTYPE[version] for version in networks]
    neighbours = ((*ethertype_is(ETHERTYPE_IPV6), *icmpv6_type_within(*NEIGHBOURS), ACCEPT),) if ipv6_cidr else ()
    to_group = (payload(_LINK, 0, 1), _mask_bits(b"\1"), compare(b"\0", _DIFFERENT))
    to_host = (*_write(bytes.fromhex(mac.replace(":", "")), _FRAME_DESTINATION), *_write(b"\0", _KIND_OF_PACKET))
    coming = (
        (*iifname_is_not(prefix + "*"), ACCEPT),
        (*ethertype_is_neither(*known_types), ACCEPT),
        (*to_group, ACCEPT),
        *neighbours,
        (*iifname_not_in(FREE_PORTS.name), *to_host, ACCEPT),
        *((*_match_isolated(version, network), *to_host) for version, network in networks.items()),
    )
    passing = (
        (*iifname_is_not(prefix + "*"), ACCEPT),
        (*oifname_is_not(prefix + "*"), ACCEPT),
        (*ethertype_is(ETHERTYPE_ARP), ACCEPT),
        *neighbours,
        (*iifname_not_in(FREE_PORTS.name), *to_group, DROP),
        (*oifname_not_in(FREE_PORTS.name), *to_group, DROP),
        *(_for_another(version) for version in networks),
        (*oifname_not_in(FREE_PORTS.name), *ethertype_is_neither(*known_types), DROP),
    )
    chains = (
        Chain("coming", Hook.PREROUTING, _TO_HOST_PRIORITY, coming),
        Chain("passing", Hook.FORWARD, FILTER_PRIORITY, passing),
    )
    by_version = (each[version] for version in networks for each in (_FREE_HOSTS, _ISOLATED))
    return Table(Family.BRIDGE, name, chains, (FREE_PORTS, *by_version))


def _match_isolated(version: int, network: str) -> Rule:
    """The packet is for an address of the Pods' that no free Pod has."""
    is_free = destination_not_in(_FREE_HOSTS[version].name, version)
    return *ethertype_is(_ETHERTYPE[version]), *destination_within(network), *is_free


def _for_another(version: int) -> Rule:
    """What goes to an isolated Pod by its port is for its own address."""
    port_and_destination = (meta(_META_OIFNAME, _FIRST), payload(_NETWORK, *DESTINATION[version], _AFTER_NAME))
    return (
        *ethertype_is(_ETHERTYPE[version]),
        *oifname_not_in(FREE_PORTS.name),
        *port_and_destination,
        lookup(_ISOLATED[version].name, _FIRST, inverted=True),
        DROP,
    )


def bridge_elements(pods: Iterable[PodTraffic], *, ipv6: bool = False) -> Elements:
    """The contents of the table."""
    versions = (4, 6) if ipv6 else (4,)
    names = [each[version].name for version in versions for each in (_FREE_HOSTS, _ISOLATED)]
    found: dict[str, set[bytes]] = {name: set() for name in (FREE_PORTS.name, *names)}
    for pod in pods:
        if pod.is_free:
            found[FREE_PORTS.name].add(link_key(pod.port))
        for version in versions:
            address = pod.address_of(version)
            if address and pod.is_free:
                found[_FREE_HOSTS[version].name].add(address_key(address))
            elif address:
                found[_ISOLATED[version].name].add(port_address_key(pod.port, address))
    return {name: frozenset(each) for name, each in found.items()}


def _mask_bits(mask: bytes) -> Expression:
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
