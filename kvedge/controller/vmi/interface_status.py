"""The NICs of a VMI as its launcher Pod shows them, before a guest has any.

Called by the VMI's status on the way to the hand-over, for VMIs on other networks than the Pod's. Pure. The handler
takes the rows over, and keeps that the Pod has joined a network.
"""

from __future__ import annotations

from kvedge.resources.types.core import Pod
from kvedge.resources.types.guest_nics import POD_NIC, pod_interfaces
from kvedge.resources.types.pod_networks import NETWORK_STATUS, lan_interfaces, parse_status, pod_nic
from kvedge.resources.types.vmi import MULTUS_STATUS, InterfaceStatus, VirtualMachineInstance


def with_joined_networks(vmi: VirtualMachineInstance, pod: Pod | None) -> list[InterfaceStatus]:
    """The rows of the status: the Pod network's first, then each network that the Pod says it has joined."""
    lan = lan_interfaces(vmi)
    if pod is None or not lan:
        return vmi.status.interfaces
    joined = {each.interface for each in parse_status(pod.metadata.annotations.get(NETWORK_STATUS, ""))}
    rows = [InterfaceStatus(name=item.name, pod_interface_name=POD_NIC) for _, item in pod_interfaces(vmi)]
    for _, item, _ in lan:
        nic = pod_nic(item.name)
        if nic in joined:
            rows.append(InterfaceStatus(name=item.name, pod_interface_name=nic, info_source=MULTUS_STATUS))
    return rows
