"""Which NICs can become a port of a bridge of kvedge's, and why another one cannot, with what to do instead.

Pure; called before a move, by the command line and again by the process that makes it.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Link
from kvedge.network.nics.nic_state import KeptAddress, KeptRoute
from kvedge.runtime.nearest_names import or_nearest

# Hardware, and links that stand for it.
_KINDS: Final = ("", "veth", "bond", "team", "vlan", "dummy")
# Links that take all of a NIC's frames for themselves: no bridge can have them as well.
_TAKERS: Final = ("macvlan", "macvtap", "ipvlan", "ipvtap")
_MOST_NAMES: Final = 3


class Carried(Struct, frozen=True):
    """What is on a NIC: what can be moved, and what cannot.

    `leases`: addresses that end unless somebody renews them; `peers`: other ends of point-to-point addresses;
    `odd_routes`: destinations of routes that cannot be made again; `has_rules`: policy rules name the link; `learns`:
    routers of the LAN have told it addresses or routes.
    """

    addresses: tuple[KeptAddress, ...] = ()
    routes: tuple[KeptRoute, ...] = ()
    leases: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    odd_routes: tuple[str, ...] = ()
    has_rules: bool = False
    learns: bool = False


class NicManager(Struct, frozen=True):
    """A program that configures the NIC, and would go on doing so; `remedy` is how it makes the bridge itself."""

    name: str
    remedy: str


class NicHardware(Struct, frozen=True):
    """What kind of NIC it is."""

    is_ethernet: bool
    is_wireless: bool


def check_nic(
    name: str,
    bridge: str,
    links: Sequence[Link],
    carried: Carried,
    hardware: NicHardware,
    manager: NicManager | None,
) -> None:
    """Raises NetworkError, with the remedy, for a NIC that cannot be moved onto this bridge."""
    by_name = {link.name: link for link in links}
    nic = by_name.get(name)
    if nic is None:
        near = or_nearest(name, sorted(by_name))
        raise NetworkError("there is no NIC", subject=name, errno=errno.ENODEV, remedy=near.strip() or "see `ip link`")
    trouble = (
        _unfit_link(nic, links, hardware)
        or _others_on(nic, links)
        or _check_managed(carried, manager)
        or _find_not_kept(carried)
        or _judge_bridge(by_name.get(bridge))
    )
    if trouble is not None:
        why, remedy = trouble
        raise NetworkError("cannot make a bridge of NIC", subject=name, why=why, remedy=remedy)


Trouble = tuple[str, str]


def _unfit_link(nic: Link, links: Sequence[Link], hardware: NicHardware) -> Trouble | None:
    if nic.kind == "bridge":
        return "it is a bridge already", f"name it with --bridge {nic.name}"
    if hardware.is_wireless:
        return "an access point takes no frames of others from it", "use a wired NIC, or the Pod network"
    if nic.kind not in _KINDS or not hardware.is_ethernet:
        return f"it is {nic.kind or 'no Ethernet link'}", "name a NIC of the host, such as eth0"
    if nic.master:
        master = next((link for link in links if link.index == nic.master), None)
        if master is not None and master.kind == "bridge":
            return f"it is a port of bridge {master.name}", f"name that with --bridge {master.name}"
        owner = f"of {master.name}" if master is not None else "of another link"
        return f"it is a part {owner}", f"name that with --nic{f' {master.name}' if master is not None else ''}"
    if not nic.up:
        return "it is down", f"take it up before: `ip link set {nic.name} up`"
    return None


def _others_on(nic: Link, links: Sequence[Link]) -> Trouble | None:
    takers = [link.name for link in links if link.lower == nic.index and link.kind in _TAKERS]
    if takers:
        return f"{cut_names(takers)} takes its frames", "remove it, or make it on a bridge of the host's own"
    return None


def _check_managed(carried: Carried, manager: NicManager | None) -> Trouble | None:
    if manager is not None:
        return f"{manager.name} configures it, and would undo the move", manager.remedy
    if carried.leases:
        return (
            f"{cut_names(carried.leases)} is a lease, which somebody renews on the NIC",
            "give the NIC a lasting address, or make the bridge in this host's network configuration, with DHCP on it,"
            " and name it with --bridge",
        )
    return None


def _find_not_kept(carried: Carried) -> Trouble | None:
    remedy = "make the bridge in this host's network configuration, and name it with --bridge"
    if carried.peers:
        return f"it has a point-to-point address (to {cut_names(carried.peers)})", remedy
    if carried.odd_routes:
        what = "has several next hops, an encapsulation or values of its own"
        return f"the route to {cut_names(carried.odd_routes)} {what}", remedy
    if carried.has_rules:
        return "rules of `ip rule` name it", remedy
    return None


def _judge_bridge(bridge: Link | None) -> Trouble | None:
    if bridge is None:
        return None
    return f"there is a link {bridge.name} already", "name another bridge with --bridge, or take that one without --nic"


def cut_names(names: Sequence[str]) -> str:
    """The first few of them."""
    shown = ", ".join(names[:_MOST_NAMES])
    return shown + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")
