"""The bridges of networks besides the Pod network: whether Pods can join one, and what makes one of ours.

Pure; called by `lan_plan`. A bridge that kvedge made is known by its alias. It has no address, so that the host itself
is not on it. A bridge of the operator's is looked at, and never changed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU
from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.link_types import Address, Link
from kvedge.network.nics.nic_plan import is_nic_bridge
from kvedge.network.pods.attachments import DEFAULT_MTU, NodeNetworkConfig, stable_mac
from kvedge.network.pods.forwarding_plan import MARK, ip_forward_before
from kvedge.network.steps import AddBridge, SetLink, SetSysctl, Step

_LAN_BRIDGE: Final = "lan-bridge"


class LanSeen(Struct, frozen=True):
    """The host's links and addresses, whether the ports' table is there, and whether the host has IPv6.

    `is_whole`: a table that is there is as this version makes it.
    """

    links: tuple[Link, ...]
    has_table: bool
    ipv6: bool
    is_whole: bool = True
    addresses: tuple[Address, ...] = ()

    def link(self, name: str) -> Link | None:
        """The link of that name."""
        return next((link for link in self.links if link.name == name), None)


def is_of_lans(link: Link) -> bool:
    """Whether a kvedge of this host made the bridge for a network of its own."""
    return link.alias.startswith(f"{MARK} {_LAN_BRIDGE} ")


def bridge_alias(config: NodeNetworkConfig) -> str:
    """What is written on a bridge that this box's kvedge made."""
    return f"{MARK} {_LAN_BRIDGE} {config.bridge}"


def check_bridge(config: NodeNetworkConfig, seen: LanSeen, network: LanConfig) -> None:
    """Raises NetworkError, with its remedy, when no Pod can join this bridge."""
    trouble = bridge_trouble(config, seen, network)
    if trouble is not None:
        raise trouble


def bridge_trouble(config: NodeNetworkConfig, seen: LanSeen, network: LanConfig) -> NetworkError | None:
    """Why no Pod can join this bridge now, with the remedy; None when Pods can."""
    bridge = seen.link(network.bridge)
    if bridge is None:
        if network.made:
            return None
        remedy = "make it in this host's network configuration, or a network without it: `kvedge network create NAME`"
        return NetworkError("there is no bridge", subject=network.bridge, errno=errno.ENODEV, remedy=remedy)
    if bridge.name == config.bridge or ip_forward_before(bridge) is not None:
        return _unfit_error(network, "it is the Pod network's own", "use `pod: {}` for it, and another bridge here")
    if network.made and bridge.kind == "bridge" and not is_made(config, bridge):
        return _unfit_error(
            network, "it is there, and this kvedge has not made it", "give the network another bridge's name"
        )
    return unfit_bridge(bridge, network)


def unfit_bridge(bridge: Link, network: LanConfig) -> NetworkError | None:
    """Why a link of the bridge's name cannot be joined, whoever made it; None when it can."""
    if bridge.kind != "bridge":
        what = f"it is {bridge.kind or 'a hardware link'} and no bridge"
        return _unfit_error(network, what, "make a bridge of which it is a port, and name that one")
    if network.has_vlans and not bridge.vlan_filtering and not is_nic_bridge(bridge):
        remedy = f"`ip link set {network.bridge} type bridge vlan_filtering 1`, in the host's configuration to last"
        return _unfit_error(network, f"it does not keep VLANs apart, and VLAN {network.vlans_text} is wanted", remedy)
    if network.mtu > bridge.mtu:
        why = f"its MTU is {bridge.mtu}, and {network.mtu} is wanted"
        more = "stop its VMs, so that the bridge is made anew" if network.made else "give the bridge and its ports more"
        return _unfit_error(network, why, f"give the network no more than {bridge.mtu}, or {more}")
    return None


def _unfit_error(network: LanConfig, why: str, remedy: str) -> NetworkError:
    return NetworkError("cannot join bridge", subject=network.bridge, why=why, remedy=remedy)


def _bridge_mac(config: NodeNetworkConfig, name: str) -> str:
    return stable_mac(config.bridge, name)


def is_made(config: NodeNetworkConfig, link: Link) -> bool:
    """Whether this box's kvedge made the bridge; its MAC tells of a bridge that was cut short before its alias."""
    is_cut_short = not link.alias and link.mac == _bridge_mac(config, link.name)
    return link.kind == "bridge" and (link.alias == bridge_alias(config) or is_cut_short)


def bridge_steps(config: NodeNetworkConfig, seen: LanSeen, network: LanConfig) -> Iterator[Step]:
    """Makes a bridge of ours, or what is missing of it; nothing for the operator's."""
    bridge = seen.link(network.bridge)
    if not network.made:
        return
    mtu = bridge.mtu if bridge is not None else network.mtu or DEFAULT_MTU
    if bridge is None:
        yield AddBridge(network.bridge, _bridge_mac(config, network.bridge), mtu)
    if bridge is None or bridge.alias != bridge_alias(config):
        yield SetLink(network.bridge, alias=bridge_alias(config))
    if bridge is None or not bridge.up:
        if seen.ipv6 and mtu >= SMALLEST_IPV6_MTU:
            yield SetSysctl(f"ipv6/conf/{network.bridge}/disable_ipv6", "1")
        yield SetLink(network.bridge, up=True)
