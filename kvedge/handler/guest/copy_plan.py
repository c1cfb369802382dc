"""What is done about the copy of a guest's disks that the VMI asks for, and what the VMI tells of it.

Called by `copy_pass`. Pure. The VMI's word is the controller's; the launcher copies once for each name, and the answer
stands in the VMI until the word is taken back.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from msgspec import Struct

from kvedge.handler.launchers.domain_outcome import ALIVE
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.hotplug_places import is_block
from kvedge.resources.types.vmi import BackupStatus, DiskCopyRequest, VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import (
    DISK_COPY_ACTIVE,
    DISK_COPY_COMPLETE,
    DISK_COPY_FAILED,
    DISK_COPY_PREPARING,
    BackupFiles,
    BeginDiskCopyRequest,
    CopiedDisk,
    DiskCopyJob,
    DomainStatus,
)
from kvedge.runtime.clock import rfc3339

_LONGEST: Final = 1000
_TYPES: Final = {False: "Full", True: "Incremental"}
# Of what an older launcher cannot do; it is replaced when the guest starts anew or moves.
_TOO_OLD: Final = "the VM's launcher is of a release that copies no disks of running guests; restart or migrate the VM"
_TOO_OLD_FOR_BACKUPS: Final = "the VM's launcher is of a release that writes no backups; restart or migrate the VM"
_TOO_OLD_FOR_MEMORY: Final = "the VM's launcher is of a release that saves no memory; restart or migrate the VM"
_TOO_OLD_FOR_STATE: Final = (
    "the VM's launcher is of a release that copies no state of TPM and UEFI firmware; restart or migrate the VM"
)
_UNDER_WAY: Final = frozenset({DISK_COPY_PREPARING, DISK_COPY_ACTIVE})


class CopyStep(Enum):
    """One thing to do."""

    NOTHING = "nothing"
    BEGIN = "have the launcher copy the disks"
    ABORT = "have the launcher end the copy that nobody wants"
    ACCEPT = "say in the claims that their copies are whole"


class CopyPlan(Struct, frozen=True):
    """The step, of which copy, and the status if that succeeds; None: nobody asks for a copy."""

    step: CopyStep = CopyStep.NOTHING
    name: str = ""
    status: BackupStatus | None = None


class CopyOutcome(Struct, frozen=True):
    """`looked`: the launcher was asked, and `status` is what the VMI is to say; `again`: when to try again."""

    looked: bool = False
    status: BackupStatus | None = None
    again: float | None = None


NOT_LOOKED: Final = CopyOutcome()


def plan_copy(vmi: VirtualMachineInstance, status: DomainStatus, present: Collection[str]) -> CopyPlan:
    """What to do; `present` are the volumes in the launcher's Pod."""
    request, job = vmi.status.disk_copy, status.disk_copy
    if request is None or job.id != request.name:
        if job.state in _UNDER_WAY:
            return CopyPlan(CopyStep.ABORT, job.id, None if request is None else _say(request, "the one before ends"))
        return CopyPlan() if request is None else _plan_begin(vmi, request, status, present)
    told = vmi.backup_status
    if told is not None and (told.completed or told.failed):
        # It was said, and stands.
        step = CopyStep.ABORT if job.state in _UNDER_WAY else CopyStep.NOTHING
        return CopyPlan(step, job.id, told)
    step = CopyStep.ACCEPT if job.state == DISK_COPY_COMPLETE else CopyStep.NOTHING
    return CopyPlan(step, job.id, read_job(request, job))


def _plan_begin(
    vmi: VirtualMachineInstance, request: DiskCopyRequest, status: DomainStatus, present: Collection[str]
) -> CopyPlan:
    told = vmi.backup_status
    if told is not None and (told.completed or told.failed):
        return CopyPlan(status=told)
    if told is not None and told.start_timestamp:
        # The launcher of this very run knew of it.
        return CopyPlan(status=fail(request, "the launcher knows nothing of the copy that it had begun"))
    if status.state not in ALIVE:
        return CopyPlan(status=_say(request, "the guest does not run yet"))
    if not status.copies_disks:
        return CopyPlan(status=fail(request, _TOO_OLD))
    if request.backup is not None and not status.backs_up:
        return CopyPlan(status=fail(request, _TOO_OLD_FOR_BACKUPS))
    if request.memory and not status.saves_memory:
        return CopyPlan(status=fail(request, _TOO_OLD_FOR_MEMORY))
    if not status.copies_state and any(volume.volume_name == STATE_VOLUME for volume in request.volumes):
        return CopyPlan(status=fail(request, _TOO_OLD_FOR_STATE))
    targets = [request.backup.target] if request.backup else [volume.copy_name for volume in request.volumes]
    targets += [request.memory] if request.memory else []
    missing = [name for name in targets if name not in present]
    if missing:
        return CopyPlan(status=_say(request, _describe_missing(vmi, missing[0])))
    return CopyPlan(CopyStep.BEGIN, request.name, _say(request, ""))


def _describe_missing(vmi: VirtualMachineInstance, name: str) -> str:
    entry = next((entry for entry in vmi.status.volume_status if entry.name == name), None)
    said = "" if entry is None else entry.message or entry.phase
    return f"volume {name}, which the copy goes into: {said or 'not there yet'}"


def make_request(vmi: VirtualMachineInstance, request: DiskCopyRequest) -> BeginDiskCopyRequest:
    """What the launcher is asked."""
    infos = {entry.name: entry.persistent_volume_claim_info for entry in vmi.status.volume_status}
    made = BeginDiskCopyRequest(id=request.name, memory=request.memory)
    if order := request.backup:
        files = BackupFiles(
            target=order.target,
            directory=order.directory,
            name=order.prefix,
            checkpoint=order.checkpoint,
            base=order.since,
            keep=order.kept_checkpoints,
            skip_quiesce=order.skip_quiesce,
            vm=vmi.metadata.name,
        )
        made.backup.CopyFrom(files)
    for volume in request.volumes:
        info = infos.get(volume.copy_name)
        block = info is not None and is_block(info.volume_mode)
        made.disks.append(CopiedDisk(volume=volume.volume_name, target=volume.copy_name, block=block))
    return made


def read_job(request: DiskCopyRequest, job: DiskCopyJob) -> BackupStatus:
    """What the VMI says of the launcher's copy, once nothing is left to do about it."""
    over = job.state in (DISK_COPY_COMPLETE, DISK_COPY_FAILED)
    message = job.message
    if job.state == DISK_COPY_ACTIVE:
        message = f"{min(job.percent, 100)}%"
    order = request.backup
    if order is not None and job.state == DISK_COPY_COMPLETE:
        message = job.full_because
    return BackupStatus(
        backup_name=request.name,
        start_timestamp=_time(job.started_unix_ms),
        end_timestamp=_time(job.ended_unix_ms) if over else None,
        completed=job.state == DISK_COPY_COMPLETE,
        failed=job.state == DISK_COPY_FAILED,
        backup_msg=message[:_LONGEST] or None,
        quiesce_status=job.quiesce[:64],
        checkpoint_name=None if order is None else order.checkpoint or None,
        downtime_milliseconds=job.stood_ms,
        backup_type="" if order is None or not job.started_unix_ms else _TYPES[job.incremental],
    )


def fail(request: DiskCopyRequest, why: str) -> BackupStatus:
    """The status of a copy that comes to nothing."""
    return BackupStatus(backup_name=request.name, failed=True, backup_msg=why[:_LONGEST])


def wait(plan: CopyPlan, why: str) -> BackupStatus | None:
    """The status while a step does not succeed: it is tried again."""
    told = plan.status
    if told is None:
        return None
    return BackupStatus(
        backup_name=told.backup_name,
        start_timestamp=told.start_timestamp,
        backup_msg=why[:_LONGEST],
        quiesce_status=told.quiesce_status,
    )


def _say(request: DiskCopyRequest, message: str) -> BackupStatus:
    return BackupStatus(backup_name=request.name, backup_msg=message[:_LONGEST] or None)


def _time(unix_ms: int) -> str | None:
    # A launcher may say anything; a time beyond the calendar is none.
    if not 0 < unix_ms < 253_402_300_800_000:
        return None
    return rfc3339(datetime.fromtimestamp(unix_ms / 1000, UTC))
