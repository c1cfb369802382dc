"""What a guest may say on a macvtap, and what is written on one that kvedge has made.

Pure; `macvtap_binding` asks here. No bridge lies between such a guest and its network: QEMU writes frames to the link
itself. The rules are therefore a table of family netdev in the Pod's namespace, whose chain sees all that the link
sends. They say what a guest's port on a bridge of the host may say, and how many addresses it may speak of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from kvedge.network.binding.binding_state import GUARD_PREFIX
from kvedge.network.binding.bridge_binding_plan import (
    ARP_SENDERS,
    GUARD_PRIORITY,
    IPV6_SENDERS,
    NEIGHBOUR_MESSAGES,
)
from kvedge.network.link_types import Link
from kvedge.network.nft.nft_rules import (
    ACCEPT,
    DROP,
    ETHERTYPE_ARP,
    ETHERTYPE_PROVIDER_VLAN,
    ETHERTYPE_VLAN,
    arp_mac_is_not,
    arp_sender_fits,
    ethertype_is,
    frame_carries_tag,
    frame_is_for_bridges,
    frame_source_is_not,
    icmpv6_type_within,
    ipv6_source_fits,
    udp_port_within,
)
from kvedge.network.nft.nft_tables import Chain, Family, LinkHook, Rule, Table

MACVTAP: Final = "macvtap"
# What servers send to: a client of DHCP, and one of DHCPv6.
CLIENT_PORTS: Final = (68, 546)
ROUTER_ADVERTISEMENT: Final = 134
REDIRECT: Final = 137
# To be counted up with each change of the rules: another set of rules is another table.
_VERSION: Final = 1
_PREFIX: Final = f"{GUARD_PREFIX}{MACVTAP}_"
_SERVERS, _NONE = "s", "-"


class MacvtapMark(Struct, frozen=True, kw_only=True):
    """What kvedge writes on a macvtap of its own: the host's NIC, the mode, and whether its guest may be a server."""

    nic: str
    mode: str
    servers: bool = False

    @property
    def alias(self) -> str:
        """The text on the link."""
        return f"kvedge {MACVTAP} {self.nic} {self.mode} {_SERVERS if self.servers else _NONE}"


def mark_of(link: Link) -> MacvtapMark | None:
    """What is written there; None for a link that somebody else has made, or that was cut short."""
    words = link.alias.split()
    if link.kind != MACVTAP or len(words) != 5 or words[:2] != ["kvedge", MACVTAP]:
        return None
    return MacvtapMark(nic=words[2], mode=words[3], servers=words[4] == _SERVERS)


def guard_of(link: Link, mac: str) -> Table:
    """The rules for the guest on this link.

    The table has the link's number in its name: the kernel forgets the chain of a link that goes, and keeps the table.
    """
    mark = mark_of(link)
    rules: list[Rule] = [
        (*frame_source_is_not(mac), DROP),
        (*ethertype_is(ETHERTYPE_ARP), *arp_mac_is_not(mac), DROP),
        (*frame_is_for_bridges(), DROP),
        (*frame_carries_tag(ETHERTYPE_VLAN), DROP),
        (*frame_carries_tag(ETHERTYPE_PROVIDER_VLAN), DROP),
    ]
    if mark is None or not mark.servers:
        rules += [(*udp_port_within(port, port), DROP) for port in CLIENT_PORTS]
        rules += [(*icmpv6_type_within(kind, kind), DROP) for kind in (ROUTER_ADVERTISEMENT, REDIRECT)]
    rules += _accept_only(ethertype_is(ETHERTYPE_ARP), arp_sender_fits(ARP_SENDERS.name))
    rules += _accept_only(icmpv6_type_within(*NEIGHBOUR_MESSAGES), ipv6_source_fits(IPV6_SENDERS.name))
    chain = Chain("egress", LinkHook.EGRESS, GUARD_PRIORITY, tuple(rules), link=link.name)
    return Table(Family.NETDEV, f"{_PREFIX}{_VERSION}_{link.index}", (chain,), (ARP_SENDERS, IPV6_SENDERS))


def stale_guards(guards: Iterable[str], links: Iterable[Link]) -> list[str]:
    """Our tables about links that are not there any more."""
    present = {str(link.index) for link in links if link.kind == MACVTAP}
    return [name for name in guards if name.startswith(_PREFIX) and name.rpartition("_")[2] not in present]


def _accept_only(what: Rule, fits: Rule) -> list[Rule]:
    return [(*what, *fits, ACCEPT), (*what, DROP)]
