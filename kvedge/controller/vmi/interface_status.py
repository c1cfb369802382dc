"""The NICs of a VMI as its launcher Pod shows them: which networks the Pod has joined, and which it is to join.

Called by the VMI's plan and status, for VMIs on other networks than the Pod's. Pure. The handler keeps these
rows, adds the guest's own NICs, and removes a row once nothing of its NIC is left.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from kvedge.resources.names import SWITCHES_NETWORKS
from kvedge.resources.types.core import Pod
from kvedge.resources.types.guest_nics import POD_NIC, pod_interfaces
from kvedge.resources.types.pod_networks import (
    NETWORK_STATUS,
    NETWORKS,
    JoinedNetwork,
    absent_interfaces,
    lan_interfaces,
    make_changed_wish,
    parse_status,
    pod_nic,
    sriov_interfaces,
)
from kvedge.resources.types.sriov_networks import NETWORK_INFO, NetworkDevice, network_info
from kvedge.resources.types.vmi import MULTUS_STATUS, InterfaceStatus, VirtualMachineInstance

# Multus' controller of dynamic networks looks only at Pods that have the annotation.
_NONE: Final = "[]"


def with_joined_networks(vmi: VirtualMachineInstance, pod: Pod | None) -> list[InterfaceStatus]:
    """The rows of the status: the Pod network's first, then each network that the Pod says it has joined."""
    functions = {item.name: None for _, item, _ in sriov_interfaces(vmi)}
    names = [item.name for _, item, _ in lan_interfaces(vmi)] + [item.name for _, item in absent_interfaces(vmi)]
    names += functions
    if pod is None or not names:
        return vmi.status.interfaces
    joined = {each.interface: each for each in parse_status(pod.metadata.annotations.get(NETWORK_STATUS, ""))}
    rows = list(vmi.status.interfaces)
    if not rows:
        rows = [InterfaceStatus(name=item.name, pod_interface_name=POD_NIC) for _, item in pod_interfaces(vmi)]
    rows = [_mark_row(row, row.pod_interface_name in joined) if row.name in names else row for row in rows]
    known = {row.name for row in rows}
    for name in names:
        if name not in known and pod_nic(name) in joined:
            # A function keeps the MAC that its card was told, or that it had: the domain does not say.
            mac = joined[pod_nic(name)].mac if name in functions else ""
            row = InterfaceStatus(name=name, pod_interface_name=pod_nic(name), info_source=MULTUS_STATUS, mac=mac)
            rows.append(row)
    # NICs that only the guest knows have no name, and come last.
    return sorted(rows, key=lambda row: not row.name)


def plan_networks(vmi: VirtualMachineInstance, pod: Pod) -> str | None:
    """The annotation that the launcher Pod of a guest that runs is to have by now; None when it has it."""
    present = pod.metadata.annotations.get(NETWORKS, "")
    wanted = make_changed_wish(vmi, present, switches=pod.metadata.annotations.get(SWITCHES_NETWORKS) == "true")
    return None if wanted == present or pod.metadata.deletion_timestamp is not None else wanted or _NONE


def plan_network_info(vmi: VirtualMachineInstance, pod: Pod, informed: Collection[str] = ()) -> str | None:
    """What the launcher is to be told of its functions, and sidecars of the devices that NICs of the `informed` binding
    plugins have, once Multus has told of the Pod; None when it is told."""
    told = pod.metadata.annotations.get(NETWORK_STATUS, "")
    nics = [item for _, item, _ in sriov_interfaces(vmi)]
    nics += [item for _, item, _ in lan_interfaces(vmi) if item.binding is not None and item.binding.name in informed]
    if not told or not nics or pod.metadata.deletion_timestamp is not None:
        return None
    joined = {each.interface: each for each in parse_status(told)}
    devices = []
    for item in nics:
        found = joined.get(pod_nic(item.name), JoinedNetwork(name=""))
        info = found.device_info if isinstance(found.device_info, dict) else None
        device = NetworkDevice(network=item.name, device_info=info, mac=found.mac, mtu=found.mtu)
        devices.append(device)
    wanted = network_info(devices)
    return None if wanted == pod.metadata.annotations.get(NETWORK_INFO) else wanted


def _mark_row(row: InterfaceStatus, is_joined: bool) -> InterfaceStatus:
    if (MULTUS_STATUS in row.sources) == is_joined:
        return row
    others = [source for source in row.sources if source != MULTUS_STATUS]
    return msgspec.structs.replace(row, info_source=", ".join([*others, *([MULTUS_STATUS] if is_joined else [])]))
