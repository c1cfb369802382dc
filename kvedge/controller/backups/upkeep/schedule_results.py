"""What became of a schedule's backups and tasks, as its status tells it.

Called by the plan of schedules. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kvedge.controller.backups.upkeep.rounds import latest_tests, order_of_tasks, sequence_of
from kvedge.controller.snapshots.snapshot_actions import Told
from kvedge.resources.types.protection.backup_schedules import BackupScheduleStatus, ScheduledVm
from kvedge.resources.types.protection.backup_tasks import BackupTask, TaskAction
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRun
from kvedge.runtime.clock import rfc3339

_LONGEST = 300


def take_results(
    status: BackupScheduleStatus, vms: Sequence[str], runs: Sequence[BackupRun], refusal: str, now: datetime
) -> tuple[BackupScheduleStatus, list[Told]]:
    """The status with what has ended since it was written, and what is to be told of that."""
    told: list[Told] = []
    entries = {each.name: each for each in status.vms}
    made = []
    for name in vms:
        entry = entries.get(name) or ScheduledVm(name=name)
        own = [each for each in runs if each.spec.vm_name == name]
        for run in sorted(own, key=lambda each: sequence_of(each.metadata)):
            if run.is_final and sequence_of(run.metadata) > entry.sequence:
                entry = _after(entry, run)
                if entry.message:
                    told.append(Told("Warning", "BackupFailed", f"VM {name}: {entry.message}"))
        last = status.last_sequence or 0
        if refusal and entry.sequence < last and all(each.is_final for each in own):
            text = f"it was refused: {refusal}"[:_LONGEST]
            entry = msgspec.structs.replace(entry, sequence=last, message=text, last_failure_time=rfc3339(now))
            told.append(Told("Warning", "BackupFailed", f"VM {name}: {text}"))
        made.append(entry)
    failed = max((each for each in made if each.message), key=lambda e: e.last_failure_time or "", default=None)
    return (
        msgspec.structs.replace(
            status,
            vms=made,
            active=sum(not each.is_final for each in runs),
            last_success_time=max((each.last_success_time or "" for each in made), default="")
            or status.last_success_time,
            last_failure_time=status.last_failure_time if failed is None else failed.last_failure_time,
            last_failure=status.last_failure if failed is None else f"VM {failed.name}: {failed.message}",
        ),
        told,
    )


def take_task_results(status: BackupScheduleStatus, tasks: Sequence[BackupTask]) -> BackupScheduleStatus:
    """The status with what the latest tasks have ended with; a message is what is wrong."""
    pruned, verified = _latest(tasks, "Prune"), _latest(tasks, "Verify")
    if pruned is not None:
        text = pruned.status.message if pruned.status.phase == "Failed" else ""
        status = msgspec.structs.replace(
            status, last_prune_time=pruned.status.completion_time, prune_message=text[:_LONGEST]
        )
    if verified is not None:
        text = verified.status.message if verified.status.phase == "Failed" else ""
        status = msgspec.structs.replace(
            status, last_verify_time=verified.status.completion_time, verify_message=text[:_LONGEST]
        )
    return status


def take_test_results(status: BackupScheduleStatus, tests: Sequence[BackupTest]) -> BackupScheduleStatus:
    """The status with which VM's latest backup did not boot: one of another VM that does says nothing of it."""
    failed = [each for _, each in sorted(latest_tests(tests).items()) if each.status.phase == "Failed"]
    text = f"VM {failed[0].spec.vm_name}: {failed[0].status.message}" if failed else ""
    return msgspec.structs.replace(status, test_message=text[:_LONGEST])


def describe_outcome(status: BackupScheduleStatus) -> tuple[str, str, str]:
    """The condition Ready, by what has ended: its status, reason and message."""
    wrong = [each for each in status.vms if each.message]
    if wrong:
        more = f" (and {len(wrong) - 1} more VMs)" if len(wrong) > 1 else ""
        return ("False", "BackupFailed", f"VM {wrong[0].name}: {wrong[0].message}{more}")
    if status.verify_message:
        return ("False", "VerificationFailed", status.verify_message)
    if status.test_message:
        return ("False", "TestFailed", status.test_message)
    if status.prune_message:
        return ("False", "PruneFailed", status.prune_message)
    return ("True", "Scheduled", "")


def _after(entry: ScheduledVm, run: BackupRun) -> ScheduledVm:
    status = run.status
    changed = msgspec.structs.replace(entry, sequence=sequence_of(run.metadata))
    if status.phase == "Succeeded":
        return msgspec.structs.replace(
            changed, last_success_time=status.completion_time, last_backup_id=status.backup_id, message=""
        )
    return msgspec.structs.replace(
        changed, last_failure_time=status.completion_time, message=(status.message or "it failed")[:_LONGEST]
    )


def _latest(tasks: Sequence[BackupTask], action: TaskAction) -> BackupTask | None:
    ended = [each for each in tasks if each.spec.action == action and each.is_final]
    return max(ended, key=order_of_tasks, default=None)
