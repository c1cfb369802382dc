"""Disks that move along: a VMI's volumes whose claims are exchanged when the guest changes its node.

Called by the controller, both handlers and admission. Pure. A VMI's spec names the claims that its guest uses: those of
the source until another handler, before it lets the guest run, writes that they are exchanged. A target Pod is made
from `as_moved`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from kvedge.resources.disks.moved_places import DISK_MOVED, is_moved_place, moved_place
from kvedge.resources.disks.volume_facts import claim_of, hotplugged_volumes, is_hotpluggable
from kvedge.resources.meta import condition
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.vmi import ClaimInfo, VirtualMachineInstance
from kvedge.resources.types.volumes import PersistentVolumeClaimSource, Volume

# The strategies by which the claims of a running VM's volumes change: at the next start, or with the guest's data.
REPLACEMENT: Final = "Replacement"
MIGRATION: Final = "Migration"
# Of a VMI: True while its volumes are to get other claims.
VOLUMES_CHANGE: Final = "VolumesChange"
# Its reason, kvedge's own, when the launcher copies the disks itself, and the guest stays where it is.
IN_PLACE: Final = "InPlace"
# On a VM: "true" has its disks move while its guest stays on its node, also where there are others.
MOVE_IN_PLACE: Final = "kvedge.io/move-disks-in-place"
# Of a VM: its run ended before the data was where the volumes are by now.
MANUAL_RECOVERY_REQUIRED: Final = "ManualRecoveryRequired"


def find_uncopied(disk: Disk) -> Literal["", "shareable", "lun", "cdrom", "read-only"]:
    """What keeps the data of a disk from being copied while its guest moves; empty for one that is copied.

    QEMU does not let libvirt write what the guest cannot write, and what others write as well has no one moment.
    """
    if disk.shareable:
        return "shareable"
    if disk.lun is not None:
        return "lun"
    if disk.cdrom is not None:
        return "cdrom"
    return "read-only" if disk.disk is not None and disk.disk.readonly else ""


def destinations(vmi: VirtualMachineInstance) -> dict[str, ClaimInfo]:
    """The claims that volumes get, by the volumes' names; a volume that has another claim than was planned on has none.

    A volume that is on its destination already moves no further.
    """
    own = {volume.name: claim_of(volume) for volume in vmi.spec.volumes}
    found: dict[str, ClaimInfo] = {}
    for moved in vmi.status.migrated_volumes:
        source, destination = moved.source_pvc_info, moved.destination_pvc_info
        if source is None or destination is None or not destination.claim_name:
            continue
        if own.get(moved.volume_name) == source.claim_name != destination.claim_name:
            found[moved.volume_name] = destination
    return found


def moves_in_place(vmi: VirtualMachineInstance) -> bool:
    """Whether the launcher that the guest runs in is to copy its disks to their new claims."""
    found = condition(vmi.status.conditions, VOLUMES_CHANGE)
    return found is not None and (found.status, found.reason) == ("True", IN_PLACE)


def is_settled_in_place(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest has its disks where its VMI names them, once these have been exchanged in place.

    Until its node's handler has seen that QEMU has exchanged them, too, the handler may have to name the old claims.
    """
    known = {entry.name: entry.reason for entry in vmi.status.volume_status}
    return all(
        known.get(moved_place(each.volume_name, each.destination_pvc_info.claim_name)) == DISK_MOVED
        for each in vmi.status.migrated_volumes
        if each.destination_pvc_info is not None
    )


def attached_volumes(vmi: VirtualMachineInstance) -> list[Volume]:
    """The volumes that come to the launcher by attachment Pods: hotplugged ones, the claims that disks are about to
    move to in place, and those that they have moved to, as long as the launcher lives.
    """
    return [*hotplugged_volumes(vmi), *_moved_volumes(vmi)]


def _moved_volumes(vmi: VirtualMachineInstance) -> list[Volume]:
    known = {entry.name for entry in vmi.status.volume_status if is_moved_place(entry.name)}
    coming = destinations(vmi) if moves_in_place(vmi) else {}
    claims = {moved_place(name, info.claim_name): info.claim_name for name, info in coming.items()}
    for volume in vmi.spec.volumes if known else ():
        claim = claim_of(volume)
        if claim is not None and not is_hotpluggable(volume) and (place := moved_place(volume.name, claim)) in known:
            claims[place] = claim
    return [
        Volume(name=place, persistent_volume_claim=PersistentVolumeClaimSource(claim_name=claim, hotpluggable=True))
        for place, claim in claims.items()
    ]


def as_moved(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
    """The VMI as it is once its guest has moved: on the claims that it gets, with what is known of them."""
    found = destinations(vmi)
    if not found:
        return vmi
    volumes = [_exchange(volume, found.get(volume.name)) for volume in vmi.spec.volumes]
    statuses = [
        msgspec.structs.replace(entry, persistent_volume_claim_info=found[entry.name]) if entry.name in found else entry
        for entry in vmi.status.volume_status
    ]
    status = msgspec.structs.replace(vmi.status, volume_status=statuses, migrated_volumes=[])
    return msgspec.structs.replace(vmi, spec=msgspec.structs.replace(vmi.spec, volumes=volumes), status=status)


def _exchange(volume: Volume, claim: ClaimInfo | None) -> Volume:
    """The volume on another claim; one that named a DataVolume names the claim itself then."""
    if claim is None:
        return volume
    old = volume.persistent_volume_claim or volume.data_volume
    source = PersistentVolumeClaimSource(claim_name=claim.claim_name, hotpluggable=old is not None and old.hotpluggable)
    return msgspec.structs.replace(volume, persistent_volume_claim=source, data_volume=None)
