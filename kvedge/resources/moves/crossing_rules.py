"""Whether a guest can leave for another box with all of its disks, and why not.

Called by the controller when its turn comes, and by the command before anything is made. Pure.
"""

from __future__ import annotations

from kvedge.resources.disks.moved_volumes import find_uncopied
from kvedge.resources.disks.state_claims import keeps_state, state_claim_of
from kvedge.resources.disks.volume_facts import claims, hotplugged_volumes
from kvedge.resources.evacuation import STORAGE_LIVE_MIGRATABLE
from kvedge.resources.meta import condition
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


def find_crossing_refusal(vmi: VirtualMachineInstance) -> str | None:
    """Why a guest cannot leave for another box with its disks; empty when it can, None while its handler is silent."""
    owner = vmi.metadata.controller_reference()
    if owner is None or owner.kind != VirtualMachine.KIND.kind:
        return "it has no VM that could be held here while the guest is elsewhere: only VMs move to another box"
    if hotplugged := hotplugged_volumes(vmi):
        return f"volume {hotplugged[0].name} is hotplugged: remove it, or restart the VM with it"
    if keeps_state(vmi.spec):
        return (
            f"PVC {state_claim_of(vmi.metadata)} has the state of its TPM or UEFI firmware, which does not come"
            " to another box while the guest runs"
        )
    disks = {disk.name: disk for disk in vmi.spec.domain.devices.disks}
    for volume in vmi.spec.volumes:
        disk = disks.get(volume.name)
        if volume.host_disk is not None:
            return f"volume {volume.name} is a hostDisk: its file is not copied"
        if disk is not None and any(claims([volume])) and (kind := find_uncopied(disk)):
            return f"disk {volume.name} is {kind}, and on a claim: it cannot be copied while the guest runs"
    found = condition(vmi.status.conditions, STORAGE_LIVE_MIGRATABLE)
    if found is None:
        return None
    if found.status == "True":
        return ""
    return f"Cannot migrate VMI, Reason: {found.reason}, Message: {found.message}"
