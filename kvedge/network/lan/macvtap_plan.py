"""Which steps give a Pod a macvtap on a NIC of this host, and take it off again.

Pure; `macvtap_ports` looks, asks here, and does. The link is made in the Pod's namespace; nothing of it is on the host.
What must be remembered of it is its alias. The NIC itself is not changed: the host goes on using it.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU
from kvedge.network.binding.macvtap_rules import MACVTAP, MacvtapMark, mark_of
from kvedge.network.dhcp.dhcp_plan import parse_mac
from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_bridges import is_of_lans
from kvedge.network.lan.macvtap_config import MacvtapConfig
from kvedge.network.link_types import Link
from kvedge.network.pods.attachments import NodeNetworkConfig, stable_mac
from kvedge.network.pods.forwarding_plan import ip_forward_before
from kvedge.network.steps import AddMacvtap, DeleteLink, SetLink, SetSysctl, Step
from kvedge.runtime.nearest_names import or_nearest

# Kinds of links on which the kernel makes macvtaps, and that lead to a network: hardware, and what stands for it.
_KINDS: Final = ("", "veth", "bond", "team", "vlan", "bridge", "dummy")


class MacvtapPort(Struct, frozen=True, kw_only=True):
    """One such NIC of one Pod: the Pod's namespace, the NIC's name there, its MAC, and the network that it joins."""

    netns: str
    interface: str
    mac: str
    network: MacvtapConfig

    @property
    def mark(self) -> MacvtapMark:
        """What is written on it."""
        network = self.network
        return MacvtapMark(nic=network.nic, mode=network.mode, servers=network.servers)


class HostNics(Struct, frozen=True):
    """The host's links, and which of them are Wi-Fi."""

    links: tuple[Link, ...]
    wireless: frozenset[str] = frozenset()


def macvtap_port(netns: str, interface: str, mac: str, network: MacvtapConfig) -> MacvtapPort:
    """A NIC that is wanted; one without a MAC of its own gets one from its place."""
    chosen = (mac or stable_mac(netns, interface)).lower()
    parse_mac(chosen)
    return MacvtapPort(netns=netns, interface=interface, mac=chosen, network=network)


def macvtap_ports_of(netns: str, links: Iterable[Link]) -> list[MacvtapPort]:
    """Ours among the links of a namespace; a link that was cut short before its alias is not among them."""
    found = []
    for link in links:
        mark = mark_of(link)
        if mark is not None:
            network = MacvtapConfig(nic=mark.nic, mode=mark.mode, servers=mark.servers)
            found.append(MacvtapPort(netns=netns, interface=link.name, mac=link.mac, network=network))
    return found


def plan_macvtap(
    config: NodeNetworkConfig, host: HostNics, inside: Collection[Link], wanted: MacvtapPort, netns: Path
) -> list[Step]:
    """What is to do on the host; `inside` are the links of the Pod's namespace.

    Raises NetworkError, with its remedy, when no guest can be on this NIC.
    """
    is_there = any(link.name == wanted.interface and link.kind == MACVTAP for link in inside)
    if is_there and not find_replaced(inside, wanted):
        return []
    nic = _fit_nic(config, host, wanted.network)
    network = wanted.network
    return [
        AddMacvtap(wanted.interface, nic.name, netns, mode=network.mode, mac=wanted.mac, mtu=network.mtu or nic.mtu)
    ]


def find_replaced(inside: Iterable[Link], wanted: MacvtapPort) -> list[str]:
    """The link in the wanted one's place, where ours of an earlier configuration of the network is there yet."""
    marks = {link.name: mark_of(link) for link in inside if link.name == wanted.interface}
    return [name for name, mark in marks.items() if mark is not None and mark != wanted.mark]


def plan_macvtap_inside(inside: Iterable[Link], wanted: MacvtapPort, *, ipv6: bool) -> list[Step]:
    """The link in the Pod's namespace: marked, and without an address of its own.

    It stays down until the handler has its guest in bounds. A marked link is the guest's, and stays as it is.
    """
    link = next(link for link in inside if link.name == wanted.interface)
    if mark_of(link) is not None:
        return []
    steps: list[Step] = []
    if ipv6 and link.mtu >= SMALLEST_IPV6_MTU:
        # The announcements of the LAN's routers are for the guest.
        steps.append(SetSysctl(f"ipv6/conf/{link.name}/disable_ipv6", "1"))
    return [*steps, SetLink(link.name, alias=wanted.mark.alias)]


def plan_macvtap_leaving(inside: Iterable[Link], kept: Collection[str]) -> list[Step]:
    """Removes ours of one Pod, but for those of these names."""
    return [DeleteLink(link.name) for link in inside if mark_of(link) is not None and link.name not in kept]


def _fit_nic(config: NodeNetworkConfig, host: HostNics, network: MacvtapConfig) -> Link:
    by_name = {link.name: link for link in host.links}
    nic = by_name.get(network.nic)
    if nic is None:
        near = or_nearest(network.nic, sorted(by_name)).strip()
        remedy = near or "see `ip link`, and name it in the network's `master`"
        raise NetworkError("there is no NIC", subject=network.nic, errno=errno.ENODEV, remedy=remedy)
    trouble = _find_unfitness(config, host, nic, network)
    if trouble is not None:
        why, remedy = trouble
        raise NetworkError("cannot make a macvtap on", subject=nic.name, why=why, remedy=remedy)
    return nic


def _find_unfitness(
    config: NodeNetworkConfig, host: HostNics, nic: Link, network: MacvtapConfig
) -> tuple[str, str] | None:
    if nic.name in host.wireless:
        return "an access point takes no frames of others from it", "use a wired NIC, or the Pod network"
    if is_of_lans(nic):
        remedy = "use `bridge: {}` with a network on it, or another NIC here"
        return "kvedge made it for a network of its own, whose guests are filtered at its ports", remedy
    if nic.name == config.bridge or ip_forward_before(nic) is not None:
        return "it is the Pod network's own", "use `pod: {}` for it, and another NIC here"
    if nic.kind not in _KINDS or not nic.mac:
        return f"it is {nic.kind or 'no Ethernet link'}", "name a NIC of the host, such as eth0"
    if nic.master:
        master = next((link.name for link in host.links if link.index == nic.master), "another link")
        return f"it is a part of {master}, which has its frames", f"name {master}, or join it by `--bridge {master}`"
    if network.mtu > nic.mtu:
        return f"its MTU is {nic.mtu}, and {network.mtu} is wanted", f"give the network no more than {nic.mtu}"
    return None
