"""Disks that move along: a VMI's volumes whose claims are exchanged when the guest changes its node.

Called by the controller, both handlers and admission. Pure. A VMI's spec names the claims that its guest uses: those of
the source until another handler, before it lets the guest run, writes that they are exchanged. A target Pod is made
from `as_moved`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.vmi import ClaimInfo, VirtualMachineInstance
from kvedge.resources.types.volumes import PersistentVolumeClaimSource, Volume

# The strategies by which the claims of a running VM's volumes change: at the next start, or with the guest's data.
REPLACEMENT: Final = "Replacement"
MIGRATION: Final = "Migration"
# Of a VMI: True while its volumes are to get other claims.
VOLUMES_CHANGE: Final = "VolumesChange"
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
