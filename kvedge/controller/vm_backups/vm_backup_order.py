"""The word by which a backup is asked for: which disks of the run, where their images go, and which changes count.

Called by `vm_backup_plan`. Pure. The claim comes to the launcher as a utility volume of the VMI, and the order stands
in the VMI's status, where the handler answers it. While it stands there no snapshot, move or migration begins.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.snapshots.snapshot_actions import Patch
from kvedge.controller.vm_backups.vm_backup_view import VmBackupView
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.vm_backups import backup_directory, target_name
from kvedge.resources.disks.volume_facts import lasting_claim
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup
from kvedge.resources.types.vmi import (
    BackupOrder,
    BackupStatus,
    CopiedVolume,
    DiskCopyRequest,
    UtilityVolume,
    VirtualMachineInstance,
)

BACKUP: Final = "Backup"
# Of the order's name; the UID of the backup follows.
ORDER_PREFIX: Final = "vmbackup-"


def find_disks(vmi: VirtualMachineInstance) -> list[Disk]:
    """The disks of a run that a backup takes: those that the guest writes, and that outlast it."""
    lasting = {volume.name for volume in vmi.spec.volumes if lasting_claim(volume) or volume.host_disk is not None}
    return [
        disk
        for disk in vmi.spec.domain.devices.disks
        if disk.name in lasting and disk.cdrom is None and disk.lun is None and not _is_read_only(disk)
    ]


def _is_read_only(disk: Disk) -> bool:
    return disk.disk is not None and bool(disk.disk.readonly)


def order_id(backup: VirtualMachineBackup) -> str:
    """By which name the launcher knows it."""
    return f"{ORDER_PREFIX}{backup.metadata.uid}"


def is_asked(vmi: VirtualMachineInstance | None, backup: VirtualMachineBackup) -> bool:
    """Whether the VMI has the order."""
    wanted = None if vmi is None else vmi.status.disk_copy
    return wanted is not None and wanted.name == order_id(backup)


def answer_of(vmi: VirtualMachineInstance, backup: VirtualMachineBackup) -> BackupStatus:
    """What is said of it."""
    told = vmi.backup_status if is_asked(vmi, backup) else None
    return told or BackupStatus()


def base_of(view: VmBackupView) -> str:
    """The checkpoint since which changes are enough; empty for all of the disks.

    Another VM may write a disk that is shared, and nobody notes it.
    """
    assert view.vmi is not None
    is_shared = any(disk.shareable for disk in find_disks(view.vmi))
    if view.tracker is None or view.backup.spec.force_full_backup or is_shared:
        return ""
    return view.tracker.checkpoint


def ask(view: VmBackupView, checkpoint: str) -> Patch:
    """The write that brings the claim to the launcher and asks for the backup."""
    backup, vmi = view.backup, view.vmi
    assert vmi is not None
    name = backup.metadata.name
    order = BackupOrder(
        target=target_name(backup.metadata.uid),
        directory=backup_directory(view.vm_name, checkpoint),
        prefix=name,
        # Without a tracker nobody asks for what changes afterwards.
        checkpoint=checkpoint if view.tracker is not None else "",
        since=base_of(view),
        kept_checkpoints=sorted(view.checkpoints),
        skip_quiesce=backup.spec.skip_quiesce,
    )
    volumes = [CopiedVolume(volume_name=disk.name) for disk in find_disks(vmi)]
    request = DiskCopyRequest(name=order_id(backup), volumes=volumes, backup=order)
    target = UtilityVolume(name=order.target, claim_name=backup.spec.pvc_name or "", type=BACKUP)
    body: JsonObject = {
        "spec": {"utilityVolumes": [encode(each) for each in [*vmi.spec.utility_volumes, target]]},
        "status": {"diskCopy": encode(request)},
    }
    return Patch(vmi, body)


def withdraw(view: VmBackupView) -> tuple[Patch, ...]:
    """The write by which the claim leaves and nothing is asked any more; none when it is so."""
    if view.vmi is None or not is_asked(view.vmi, view.backup):
        return ()
    ours = target_name(view.backup.metadata.uid)
    left = [encode(each) for each in view.vmi.spec.utility_volumes if each.name != ours]
    return (Patch(view.vmi, {"spec": {"utilityVolumes": left or None}, "status": {"diskCopy": None}}),)
