"""NICs of launcher Pods on networks of a cluster's node where no Multus joins them, for the handler.

Called as root on the node. Touches what `lan_nics` does. The Pods' namespaces have no names here: each is reached by a
descriptor, and its owner, a VMI, is written on the ports of its NICs in the name's place.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvedge.network.binding.binding_state import names_for
from kvedge.network.binding.macvtap_rules import mark_of
from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_nics import Port, attach_nic
from kvedge.network.lan.lan_plan import LanPort, lan_port_name
from kvedge.network.lan.lan_ports import LanHealth, detach_lan, heal_lan, lan_ports_here, remove_lan, renew_keys
from kvedge.network.lan.macvtap_ports import detach_macvtap, list_links_in
from kvedge.network.lan.pods_links import find_pods_reason
from kvedge.network.link_types import Link
from kvedge.network.links import Links
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.runtime.rounds import Rounds

log = logging.getLogger(__name__)

# No link is called so: a box on the same host has other names for its own.
NODE_LANS: Final = NodeNetworkConfig(bridge="node:lans", cidr="", table="kvedge_node", netns_prefix="")
_PERIOD: Final = 30.0


def has_nic(netns: int, owner: str, nic: str, index: int) -> bool:
    """Whether the Pod has this NIC already, and another one than the handler has made it: Multus, or a CNI plugin.

    `index` is the place in the VMI of the interface that may be bound to it by now.

    Raises:
        NetworkError: when the namespace is gone.
    """
    inside = list_links_in(netns)
    names = {nic, names_for(nic, index).nic, names_for(nic, index).tap}
    found = [link for link in inside if link.name in names]
    if not found or any(mark_of(link) is not None for link in inside if link.name == nic):
        return False
    ours = lan_port_name(NODE_LANS, owner, nic)
    with Links() as links:
        return all(link.name != ours for link in links.list_links())


def join_nic(netns: int, port: Port) -> None:
    """Give the Pod this NIC; one that is there stays as it is.

    Raises:
        NetworkError: when there can be none of that kind there, or it would be beside the Pods.
    """
    _refuse_pods_links(list_links_in(netns), port)
    attach_nic(NODE_LANS, port, Path(f"/proc/self/fd/{netns}"))


def joined_nics(owner: str) -> frozenset[str]:
    """The NICs on bridges that the handler has given to this VMI's Pod. Raises NetworkError."""
    return frozenset(port.interface for port in lan_ports_here(NODE_LANS).values() if port.netns == owner)


def has_other_nic(port: Port) -> bool:
    """Whether the handler has given the Pod this NIC otherwise: its address or its network has changed since.

    Raises:
        NetworkError: when the node's links cannot be listed.
    """
    if not isinstance(port, LanPort):
        return False
    ports = lan_ports_here(NODE_LANS).values()
    known = [each for each in ports if (each.netns, each.interface) == (port.netns, port.interface)]
    return any(each.alias != port.alias for each in known)


def leave_nic(netns: int, owner: str, nic: str) -> None:
    """Take this NIC of a VMI's Pod away; nothing when the handler has not given it.

    Raises:
        NetworkError: when the kernel refused, or the namespace is gone.
    """
    detach_macvtap(netns, nic)
    joined = joined_nics(owner)
    if nic in joined:
        detach_lan(NODE_LANS, owner, joined - {nic})


def leave_all(owner: str) -> None:
    """Take away what is left of the NICs of a VMI that is gone. Raises NetworkError."""
    detach_lan(NODE_LANS, owner)


def remove_node_lans() -> None:
    """Take away all that the handlers of this node have made for guests, none of which runs any more.

    Raises:
        NetworkError: when the kernel refused.
    """
    remove_lan(NODE_LANS)


def _refuse_pods_links(inside: Sequence[Link], port: Port) -> None:
    """A guest beside the Pods would be heard under any address that a Pod has."""
    is_bridge = isinstance(port, LanPort)
    name = port.network.bridge if isinstance(port, LanPort) else port.network.nic
    with Links() as links:
        why = find_pods_reason(inside, links.list_links(), name)
    if why:
        raise NetworkError(
            "cannot join bridge" if is_bridge else "cannot make a macvtap on",
            subject=name,
            why=why,
            remedy=f"use `pod: {{}}` for it, and another {'bridge' if is_bridge else 'NIC'} here",
        )


class NodeLansKeeper:
    """Puts back what others undo of such NICs, and takes away what Pods that have gone leave behind."""

    def __init__(self) -> None:
        """Nothing was seen yet: what an earlier handler left is renewed at the first look."""
        self._ports: frozenset[str] | None = None
        self._health = LanHealth((), ())
        self._error = ""
        self.rounds = Rounds("node-lans", "looks after the networks of the LAN", _PERIOD, self.look, at_once=True)

    def look(self) -> None:
        """Once."""
        try:
            ports = frozenset(lan_ports_here(NODE_LANS))
            if self._ports is None or self._ports - ports:
                # A port goes with its Pod's namespace, and says nothing of its keys.
                renew_keys(NODE_LANS)
            self._ports = ports
            health = heal_lan(NODE_LANS)
        except NetworkError as error:
            if str(error) != self._error:
                log.warning("the networks of the LAN cannot be put right", extra={"facts": {"error": str(error)}})
            self._error = str(error)
            return
        self._error = ""
        if health.healed:
            log.warning(
                "networks of the LAN were changed by others and are put right",
                extra={"facts": {"undone": "; ".join(health.healed)}},
            )
        for trouble in set(health.troubles) - set(self._health.troubles):
            log.warning("guests are cut off from a network", extra={"facts": {"trouble": trouble}})
        if filtered := sorted(set(health.filtered) - set(self._health.filtered)):
            log.info(
                "iptables of this host sees what guests send on these bridges, and may drop it",
                extra={"facts": {"bridges": ", ".join(filtered), "sysctl": "net.bridge.bridge-nf-call-iptables"}},
            )
        self._health = health
