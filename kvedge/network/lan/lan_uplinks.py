"""VLANs of a bridge that kvedge made of a NIC: it keeps them apart, and the NIC carries them with their tags.

Called by `lan_plan`. Pure. Frames without a tag, and with them the host's own, go on as before: the kernel has each
port and the bridge itself in VLAN 1 from the start. A VLAN stays the NIC's until its bridge goes. With a bridge of the
operator's all this is the operator's to do.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvedge.network.lan.lan_bridges import LanSeen
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.nics.nic_plan import is_nic_bridge, nic_of_bridge
from kvedge.network.steps import AddPortVlans, SetLink, Step


def uplink_steps(seen: LanSeen, network: LanConfig) -> Iterator[Step]:
    """What a network's VLANs need of such a bridge, each time anew: what VLANs a port has is not looked at."""
    bridge = seen.link(network.bridge)
    if bridge is None or not network.has_vlans or not is_nic_bridge(bridge):
        return
    if not bridge.vlan_filtering:
        yield SetLink(bridge.name, vlan_filtering=True)
    nic = seen.link(nic_of_bridge(bridge))
    if nic is not None and nic.master == bridge.index:
        wanted = sorted({*network.trunk, *({(network.vlan, network.vlan)} if network.vlan else set())})
        yield AddPortVlans(nic.name, tuple(wanted))
