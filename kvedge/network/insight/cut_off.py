"""Whether a guest's NIC still leads to its network: the node's end of the Pod's pair, its bridge, the bridge's uplinks.

Called by `cut_off_reader` with the links of the node, again and again. Pure. A box writes on such an end which bridge
it belongs on; of an end that a CNI plugin made, and of uplinks, only an earlier look knows what was there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.network.insight.packet_way import uplinks_of
from kvedge.network.lan.lan_bridges import unfit_bridge
from kvedge.network.lan.lan_plan import lan_port_of
from kvedge.network.link_types import Link

_RESTART: Final = "restart the VM: its new Pod joins the network"
_BY_ITSELF: Final = "the guest is put back on it within the minute"
_MOST_NAMED: Final = 4


class NicSeen(Struct, frozen=True):
    """What one look has found: the bridge that the NIC belongs on, its uplinks, and why the guest is cut off.

    `is_gone`: there is no such end on the node. `is_silent`: no uplink had a carrier.
    """

    bridge: str = ""
    uplinks: tuple[str, ...] = ()
    trouble: str = ""
    is_gone: bool = False
    is_silent: bool = False


def judge_nic(end_index: int, before: NicSeen, links: Mapping[int, Link]) -> NicSeen:
    """One NIC, by the index of its end on the node and what the look before this one has found."""
    end = links.get(end_index)
    if end is None or end.kind != "veth":
        gone = f"its link to the node's bridge {before.bridge} is gone; {_RESTART}" if before.bridge else ""
        return NicSeen(before.bridge, before.uplinks, gone, is_gone=end is None)
    port, now_on = lan_port_of(end), links.get(end.master)
    if port is None and now_on is not None and now_on.kind != "bridge":
        # A switch of another kind (Open vSwitch, a VRF) has ports and uplinks that links do not tell.
        return NicSeen()
    is_ours = port is not None
    name = port.network.bridge if port is not None else before.bridge or (now_on.name if now_on else "")
    if not name:
        # Other plugins lead such a pair to no bridge.
        return NicSeen()
    bridge = next((link for link in links.values() if link.name == name), None)
    if bridge is None:
        is_made = port is not None and port.network.made
        remedy = _BY_ITSELF if is_made else f"make it again: {_BY_ITSELF if is_ours else _RESTART}"
        return NicSeen(name, before.uplinks, f"there is no bridge {name} on the node; {remedy}")
    unfit = unfit_bridge(bridge, port.network) if port is not None else None
    uplinks = uplinks_of(bridge, links.values())
    is_silent = bool(uplinks) and not any(link.carrier for link in uplinks)
    names = tuple(link.name for link in uplinks)
    if unfit is not None:
        why = str(unfit)
    elif now_on is None or now_on.index != bridge.index:
        why = f"its link {end.name} is not on bridge {name}; {_BY_ITSELF if is_ours else _RESTART}"
    elif not bridge.up:
        why = f"bridge {name} is down; `ip link set {name} up` on the node"
    else:
        # A switch that learns, or a link that is negotiated, takes a carrier away for a moment.
        why = _trouble_of_uplinks(name, uplinks, before.uplinks, is_silent=is_silent and before.is_silent)
    return NicSeen(name, names or before.uplinks, why, is_silent=is_silent)


def _trouble_of_uplinks(bridge: str, uplinks: Sequence[Link], before: Sequence[str], *, is_silent: bool) -> str:
    """A bridge that never had an uplink is a network of guests among themselves."""
    if not uplinks and before:
        names = ", ".join(before[:_MOST_NAMED])
        return f"bridge {bridge} has lost its uplink {names}; `ip link set {before[0]} master {bridge}` on the node"
    if is_silent:
        names = ", ".join(link.name for link in uplinks[:_MOST_NAMED])
        return f"no uplink of bridge {bridge} has a carrier ({names}); look at its cable, and at its other end"
    return ""
