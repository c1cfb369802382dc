"""What a backup says of itself: its conditions and the events of their changes.

Called by `vm_backup_plan`. Pure. Reasons and messages are KubeVirt's.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.kubevirt.condition_rules import with_condition, without_conditions
from kvedge.controller.snapshots.snapshot_actions import Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.controller.vm_backups.vm_backup_view import VmBackupView
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackupStatus
from kvedge.resources.types.vmi import BackupStatus

PROGRESSING: Final = "Progressing"
INITIALIZING: Final = "Initializing"
INITIATED: Final = "Initiated"
PREPARING_EXPORT: Final = "PreparingExport"
EXPORT_READY: Final = "ExportReady"
ABORTING: Final = "Aborting"
_WORDS: Final = {
    INITIATED: "Backup is in progress",
    PREPARING_EXPORT: "Backup export is being initialized",
    EXPORT_READY: "Backup export is ready to pull",
    ABORTING: "Backup is aborting",
}
_LONGEST: Final = 1000
_COMPLETED: Final = "Successfully completed VirtualMachineBackup"
# By how the guest was held still: whether that was well, and the reason.
_QUIESCED: Final = {"GuestAgent": ("True", "QuiesceSucceeded"), "QuiesceSkipped": ("False", "QuiesceSkipped")}
_NOT_QUIESCED: Final = ("False", "QuiesceFailed")
_QUIESCE_WORDS: Final = {
    "NoGuestAgent": "the guest's agent is not connected",
    "Paused": "the VM is paused",
    "QuiesceTimeout": "the guest went on before the moment",
    "QuiesceFailed": "the guest's agent refused",
}


def reason_of(view: VmBackupView) -> str:
    """How far it is, as it says itself."""
    found = condition(view.backup.status.conditions, PROGRESSING)
    return "" if found is None else found.reason


def progress(
    status: VirtualMachineBackupStatus, reason: str, now: datetime, message: str = ""
) -> VirtualMachineBackupStatus:
    """The status with another condition of progress."""
    words = (message or _WORDS.get(reason, ""))[:_LONGEST]
    return _with(status, Condition(type=PROGRESSING, status="True", reason=reason, message=words), now)


def restart(status: VirtualMachineBackupStatus) -> VirtualMachineBackupStatus:
    """The status without its progress: the time of the next one's condition is that of its first writing."""
    return msgspec.structs.replace(status, conditions=without_conditions(status.conditions, (PROGRESSING,)))


def note_quiesce(status: VirtualMachineBackupStatus, told: BackupStatus, now: datetime) -> VirtualMachineBackupStatus:
    """The status with what its moment was like."""
    state, reason = _QUIESCED.get(told.quiesce_status, _NOT_QUIESCED)
    message = _QUIESCE_WORDS.get(told.quiesce_status, "")
    return _with(status, Condition(type="Quiesced", status=state, reason=reason, message=message), now)


def write(
    view: VmBackupView,
    status: VirtualMachineBackupStatus,
    more: tuple[SnapshotAction, ...] = (),
    told: tuple[Told, ...] = (),
    again: float | None = None,
    before: tuple[SnapshotAction, ...] = (),
) -> SnapshotPlan:
    """The plan that writes this status between other writes, where it differs."""
    difference = merge_difference(encode(view.backup.status), encode(status))
    own = (Patch(view.backup, {"status": difference}, "status"),) if difference else ()
    return SnapshotPlan((*before, *own, *more), told if difference else (), again)


def fail(
    view: VmBackupView, now: datetime, reason: str, message: str, more: tuple[SnapshotAction, ...] = ()
) -> SnapshotPlan:
    """It came to nothing."""
    text = message[:_LONGEST]
    status = _end(view.backup.status, "Failed", reason, text, now)
    return write(view, status, more, (Told("Warning", "VirtualMachineBackupFailed", text),))


def complete(
    view: VmBackupView,
    status: VirtualMachineBackupStatus,
    now: datetime,
    warning: str,
    *,
    before: tuple[SnapshotAction, ...] = (),
    more: tuple[SnapshotAction, ...] = (),
    told: tuple[Told, ...] = (),
) -> SnapshotPlan:
    """It is whole; `told` comes before the event of that."""
    if warning:
        text = f"Completed VirtualMachineBackup, warning: {warning}"[:_LONGEST]
        status = _end(status, "Complete", "CompletedWithWarning", text, now)
        end = Told("Warning", "VirtualMachineBackupCompletedWithWarning", text)
    else:
        status = _end(status, "Complete", "Completed", _COMPLETED, now)
        end = Told("Normal", "VirtualMachineBackupCompletedSuccessfully", _COMPLETED)
    return write(view, status, more, (*told, end), before=before)


def _end(
    status: VirtualMachineBackupStatus, type_: str, reason: str, message: str, now: datetime
) -> VirtualMachineBackupStatus:
    ended = _with(status, Condition(type=PROGRESSING, status="False", reason=reason, message=message), now)
    return _with(ended, Condition(type=type_, status="True", reason=reason, message=message), now)


def _with(status: VirtualMachineBackupStatus, wanted: Condition, now: datetime) -> VirtualMachineBackupStatus:
    found = condition(status.conditions, wanted.type)
    if found is not None and (found.status, found.reason, found.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    ):
        return status
    return msgspec.structs.replace(status, conditions=with_condition(status.conditions, wanted, now))
