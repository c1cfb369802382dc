"""What has to be done about a backup of a running VM, from its making until nothing of it is left in the VM.

Called by vm_backup_loop.py. Pure. The order stands in the VMI until the backup says how it ended; a tracker goes on
to the backup's checkpoint before the backup is called complete, and never to that of one that failed.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from kvedge.controller.snapshots.snapshot_actions import Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.controller.vm_backups.served_backup import expiry, find_endpoints, life_of, plan_export, was_ready
from kvedge.controller.vm_backups.vm_backup_order import answer_of, ask, find_disks, is_asked, withdraw
from kvedge.controller.vm_backups.vm_backup_report import (
    EXPORT_READY,
    INITIALIZING,
    INITIATED,
    PREPARING_EXPORT,
    complete,
    fail,
    note_quiesce,
    progress,
    reason_of,
    restart,
    write,
)
from kvedge.controller.vm_backups.vm_backup_view import FINALIZER, VmBackupView
from kvedge.controller.vm_backups.vm_backup_waits import find_fault, find_wait
from kvedge.resources.codec import encode
from kvedge.resources.disks.vm_backups import checkpoint_name
from kvedge.resources.types.protection.vm_backups import (
    BackupCheckpoint,
    BackupVolume,
    CheckpointVolume,
    VirtualMachineBackupStatus,
)
from kvedge.resources.types.vmi import BackupStatus, VirtualMachineInstance
from kvedge.runtime.clock import rfc3339

# Changes of all that it waits for are followed; this is for what is not.
_LOOK_SECONDS: Final = 15.0
_MOST_TOLD: Final = 1000
_SERVED: Final = frozenset({PREPARING_EXPORT, EXPORT_READY})
_EXPIRED: Final = "pull mode backup TTL has expired: Backup is aborting"


def plan_vm_backup(view: VmBackupView, now: datetime) -> SnapshotPlan:
    """The next writes."""
    meta = view.backup.metadata
    if meta.deletion_timestamp is not None:
        return _plan_deletion(view, now)
    if view.backup.is_final:
        return SnapshotPlan(withdraw(view))
    if FINALIZER not in meta.finalizers:
        return SnapshotPlan((Patch(view.backup, {"metadata": {"finalizers": [*meta.finalizers, FINALIZER]}}),))
    if reason_of(view) in _SERVED:
        return _plan_served(view, now)
    if not is_asked(view.vmi, view.backup):
        return _plan_begin(view, now)
    assert view.vmi is not None
    return _plan_asked(view, view.vmi, now)


def _plan_begin(view: VmBackupView, now: datetime) -> SnapshotPlan:
    status = view.backup.status
    if reason_of(view) == INITIATED:
        if view.vmi is None or view.vmi.is_final:
            return fail(view, now, "SourceLost", "VMI was deleted during backup")
        return fail(view, now, "SourceLost", "VMI backup status was lost")
    if fault := find_fault(view):
        return fail(view, now, "Failed", f"Backup has failed: {fault}")
    if wait := find_wait(view):
        return write(view, progress(status, INITIALIZING, now, wait), again=_LOOK_SECONDS)
    assert view.vmi is not None
    # The name is in the files' names: it is kept before anything bears it.
    if not status.checkpoint_name:
        stamp = now.strftime("%Y-%m-%d_%H-%M-%S")
        status = msgspec.structs.replace(
            status, checkpoint_name=checkpoint_name(view.backup.metadata.name, stamp), included_volumes=_volumes(view)
        )
        return write(view, progress(status, INITIALIZING, now, "the claim comes to the VM"))
    return SnapshotPlan((ask(view, status.checkpoint_name),), again_after=_LOOK_SECONDS)


def _volumes(view: VmBackupView) -> list[BackupVolume]:
    assert view.vmi is not None
    targets = {entry.name: entry.target for entry in view.vmi.status.volume_status}
    return [
        BackupVolume(volume_name=disk.name, disk_target=targets.get(disk.name, "")) for disk in find_disks(view.vmi)
    ]


def _plan_asked(view: VmBackupView, vmi: VirtualMachineInstance, now: datetime) -> SnapshotPlan:
    told, status = answer_of(vmi, view.backup), view.backup.status
    if told.completed:
        return _plan_complete(view, told, now)
    if told.failed:
        return fail(
            view, now, "Failed", f"Backup has failed: {told.backup_msg or 'unknown failure reason'}", withdraw(view)
        )
    if vmi.is_final or vmi.metadata.deletion_timestamp is not None:
        return fail(view, now, "SourceLost", "VMI was deleted during backup", withdraw(view))
    if vmi.status.evacuation_node_name:
        # A node that is drained waits for its guests, and a backup may take hours.
        text = f"Aborting backup {view.backup.metadata.name} for system-critical migration"
        return fail(view, now, "Failed", f"Backup has failed: {text}", withdraw(view))
    if not told.start_timestamp:
        waits = told.backup_msg or "the claim comes to the VM"
        return write(view, progress(status, INITIALIZING, now, waits), again=_LOOK_SECONDS)
    status = progress(note_quiesce(_with_type(status, told), told, now), INITIATED, now)
    return write(view, status, again=_LOOK_SECONDS)


def _with_type(status: VirtualMachineBackupStatus, told: BackupStatus) -> VirtualMachineBackupStatus:
    return msgspec.structs.replace(status, type="Incremental" if told.backup_type == "Incremental" else "Full")


def _plan_complete(view: VmBackupView, told: BackupStatus, now: datetime) -> SnapshotPlan:
    status = note_quiesce(_with_type(view.backup.status, told), told, now)
    if view.backup.spec.is_pull:
        # Its export reads the claim once the VM has let it go.
        return write(view, progress(restart(status), PREPARING_EXPORT, now), withdraw(view))
    warning = told.backup_msg or ""
    plan = complete(view, status, now, warning, before=advance(view, told.start_timestamp), more=withdraw(view))
    if not warning or view.tracker is None:
        return plan
    lost = Told("Warning", "CheckpointRedefinitionFailed", f"{warning}. This backup is a full one"[:_MOST_TOLD])
    return SnapshotPlan(plan.actions, (*plan.told, lost), plan.again_after)


def advance(view: VmBackupView, moment: str | None) -> tuple[SnapshotAction, ...]:
    """The write by which the next backup of the tracker goes on from this one; none without a tracker."""
    tracker, status = view.tracker, view.backup.status
    if tracker is None or not status.checkpoint_name or tracker.checkpoint == status.checkpoint_name:
        return ()
    volumes = [
        CheckpointVolume(volume_name=each.volume_name, disk_target=each.disk_target) for each in status.included_volumes
    ]
    latest = BackupCheckpoint(name=status.checkpoint_name, creation_time=moment, volumes=volumes)
    return (Patch(tracker, {"status": {"latestCheckpoint": encode(latest)}}, "status"),)


def _plan_served(view: VmBackupView, now: datetime) -> SnapshotPlan:
    """Its images are whole; clients fetch them until its time is over.

    The tracker goes on only if they could: what nobody has fetched is in the next backup once more.
    """
    if left := withdraw(view):
        return SnapshotPlan(left)
    over = expiry(view.backup)
    if now >= over and not was_ready(view.backup):
        why = view.refusal or _tell_export(view) or "it was not made"
        return fail(view, now, "Failed", f"Backup has failed: no export was ready within {life_of(view.backup)}: {why}")
    if now >= over:
        told = Told("Normal", "VirtualMachineBackupAborting", _EXPIRED)
        return complete(view, view.backup.status, now, "", before=advance(view, rfc3339(now)), told=(told,))
    until = (over - now) / timedelta(seconds=1)
    if view.export is None:
        if view.refusal:
            status = progress(view.backup.status, PREPARING_EXPORT, now, view.refusal)
            return write(view, status, again=_LOOK_SECONDS)
        return SnapshotPlan((plan_export(view, until),), again_after=_LOOK_SECONDS)
    ready = find_endpoints(view.backup.status, view.export)
    if ready is None:
        status = progress(view.backup.status, PREPARING_EXPORT, now, _tell_export(view))
        return write(view, status, again=_LOOK_SECONDS)
    if not was_ready(view.backup):
        return write(view, progress(restart(ready), EXPORT_READY, now), again=_LOOK_SECONDS)
    return write(view, progress(ready, EXPORT_READY, now), again=until)


def _tell_export(view: VmBackupView) -> str:
    conditions = [] if view.export is None else view.export.status.conditions
    return next((each.message for each in conditions if each.type == "Ready"), "")


def _plan_deletion(view: VmBackupView, now: datetime) -> SnapshotPlan:
    """Of a backup that could be fetched this is the way to end it; one that is under way comes to nothing."""
    meta = view.backup.metadata
    if FINALIZER not in meta.finalizers:
        return SnapshotPlan()
    told: tuple[Told, ...] = ()
    before: tuple[SnapshotAction, ...] = ()
    if not view.backup.is_final and reason_of(view) in _SERVED and was_ready(view.backup):
        before = advance(view, rfc3339(now))
    elif not view.backup.is_final:
        told = (Told("Normal", "VirtualMachineBackupAborting", "Backup is aborting"),)
    left = [each for each in meta.finalizers if each != FINALIZER]
    freed = Patch(view.backup, {"metadata": {"finalizers": left or None}})
    return SnapshotPlan((*before, *withdraw(view), freed), told)
