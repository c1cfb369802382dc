"""The disks on claims that are copied when a guest moves: what both handlers tell their launchers of them.

Called by the source's steps, and by what prepares the target's Pod. Pure. Which claims are exchanged, the controller
has written into the VMI before, and nobody changes it as long as the migration is open.
"""

from __future__ import annotations

from kvedge.handler.pod_errors import PodNotReady
from kvedge.resources.disks.hotplug_places import is_block
from kvedge.resources.disks.moved_volumes import destinations, find_uncopied
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.types.vmi import ClaimInfo, VirtualMachineInstance


def copied_claims(vmi: VirtualMachineInstance) -> dict[str, ClaimInfo]:
    """The claims that data is copied to, by volume: between two boxes all of them, to claims of the same names."""
    state = vmi.status.migration_state
    if state is None or (state.source_state is None and state.target_state is None):
        return destinations(vmi)
    lasting = {disk.name for disk in vmi.spec.domain.devices.disks if not find_uncopied(disk)}
    known = {entry.name: entry.persistent_volume_claim_info for entry in vmi.status.volume_status}
    return {
        volume.name: known.get(volume.name) or ClaimInfo(claim_name=name)
        for volume, name in claims(vmi.spec.volumes)
        if volume.name in lasting
    }


def copied_bytes(vmi: VirtualMachineInstance) -> dict[str, int]:
    """The sizes of these disks as the guest sees them, by volume; 0 for one that is not known."""
    found = copied_claims(vmi)
    if not found:
        return {}
    state = vmi.status.migration_state
    sizes = {entry.name: max(0, entry.size) for entry in vmi.status.volume_status}
    if state is not None and state.source_state is not None:
        sizes = state.source_state.disks
    return {name: sizes.get(name, 0) for name in sorted(found)}


def known_bytes(vmi: VirtualMachineInstance) -> dict[str, int]:
    """As :func:`copied_bytes`, of which all are known.

    Raises:
        PodNotReady: when the source's handler has not told one yet.
    """
    found = copied_bytes(vmi)
    unknown = [name for name, size in found.items() if not size]
    if unknown:
        text = f"the size of disk {unknown[0]}, which is to be copied to another claim, is not known yet"
        raise PodNotReady(f"{text}; a launcher of an earlier version does not tell it: restart the VM then")
    return found


def image_bytes(vmi: VirtualMachineInstance) -> dict[str, int]:
    """The sizes of files that the target makes as the source has them, by volume."""
    state = vmi.status.migration_state
    if state is not None and state.source_state is not None:
        return {name: size for name, size in state.source_state.images.items() if size > 0}
    return {entry.name: entry.size for entry in vmi.status.volume_status if entry.size > 0}


def copied_devices(vmi: VirtualMachineInstance) -> list[str]:
    """Those of the volumes that get a block device."""
    return sorted(name for name, claim in copied_claims(vmi).items() if is_block(claim.volume_mode))
