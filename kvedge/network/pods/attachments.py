"""The node network of one box and the Pods on it: what they, their links and their namespaces are called.

Pure; the plans of this folder and their callers share it. A port's alias holds its attachment, so that the ports
tell which Pods are there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Final

from msgspec import Struct

from kvedge.network.binding.port_rules import keys_of
from kvedge.network.dhcp.dhcp_plan import parse_mac
from kvedge.network.link_types import Link
from kvedge.network.pods.forwarding_plan import MARK

DEFAULT_ROUTE: Final = "0.0.0.0/0"
DEFAULT_IPV6_ROUTE: Final = "::/0"
DEFAULT_MTU: Final = 1500
POD_INTERFACE: Final = "eth0"


class NodeNetworkConfig(Struct, frozen=True, kw_only=True):
    """One box's Pod network. `table` names our nftables tables, `netns_prefix` begins the names of our namespaces."""

    bridge: str
    cidr: str
    table: str
    netns_prefix: str
    # The second network, of IPv6; empty for none.
    ipv6_cidr: str = ""
    # 0 takes the MTU of the link by which the host reaches the world.
    mtu: int = 0
    # False on a kernel without NFT_CONNLIMIT.
    limits_flows: bool = True
    # False on a kernel without NFT_LIMIT.
    limits_questions: bool = True


class Attachment(Struct, frozen=True, kw_only=True):
    """One Pod on the node bridge: its namespace's name, the host's end of its pair, its address and its NIC's MAC."""

    netns: str
    port: str
    address: str
    mac: str
    # Empty where the Pod has none.
    ipv6_address: str = ""

    @property
    def alias(self) -> str:
        """The alias of the port, which holds the attachment."""
        return f"{MARK} {self.netns} {self.address} {self.mac} {self.ipv6_address}".rstrip()

    @property
    def keys(self) -> dict[str, tuple[bytes, ...]]:
        """The keys that the Pod adds to the sets of the ports' table."""
        return keys_of(self.port, self.address, self.mac, self.ipv6_address)


def port_prefix(bridge: str) -> str:
    """The prefix of the names of this bridge's ports; another instance's bridge has another."""
    return "v" + hashlib.sha256(bridge.encode()).hexdigest()[:6]


def policy_table_name(table: str) -> str:
    """The name of the tables of NetworkPolicies beside those of the node network."""
    return f"{table}_policies"


def netns_name(config: NodeNetworkConfig, uid: str) -> str:
    """The name of the namespace of the Pod with this UID."""
    return f"{config.netns_prefix}{uid}"


def port_name(bridge: str, netns: str) -> str:
    """The host's end of a Pod's pair: 15 letters, as many as a name may have."""
    return port_prefix(bridge) + hashlib.sha256(netns.encode()).hexdigest()[:8]


def stable_mac(*names: str) -> str:
    """A locally administered unicast MAC that belongs to these names."""
    return ":".join(f"{byte:02x}" for byte in (0x02, *hashlib.sha256("/".join(names).encode()).digest()[:5]))


def attachment_for(
    config: NodeNetworkConfig, netns: str, address: str, mac: str | None, ipv6_address: str = ""
) -> Attachment:
    """Make a Pod's attachment; a Pod without a MAC of its own gets one from its namespace's name.

    It drops an IPv6 address of a range that is no longer ours: no route would lead to it.
    """
    chosen = (mac or stable_mac(config.bridge, netns)).lower()
    parse_mac(chosen)
    is_ours = bool(ipv6_address and config.ipv6_cidr) and IPv6Address(ipv6_address) in IPv6Network(config.ipv6_cidr)
    return Attachment(
        netns=netns,
        port=port_name(config.bridge, netns),
        address=str(IPv4Address(address)),
        mac=chosen,
        ipv6_address=ipv6_address if is_ours else "",
    )


def attachments_of(config: NodeNetworkConfig, links: Iterable[Link]) -> list[Attachment]:
    """Read the attachments from our ports' aliases; a port without its alias is unfinished, and left out."""
    found = []
    for link in our_ports(config, links):
        words = link.alias.split()
        if len(words) in (4, 5) and words[0] == MARK:
            netns, address, mac, ipv6_address = (*words[1:], "")[:4]
            found.append(Attachment(netns=netns, port=link.name, address=address, mac=mac, ipv6_address=ipv6_address))
    return found


def our_ports(config: NodeNetworkConfig, links: Iterable[Link]) -> list[Link]:
    """The host ends of all our pairs, finished or not."""
    return [link for link in links if link.kind == "veth" and link.name.startswith(port_prefix(config.bridge))]
