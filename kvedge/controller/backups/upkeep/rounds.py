"""What a schedule of backups makes in one round, and which of it is history.

Called by the plan of schedules and by what looks for targets of pruning. Pure. Rounds have numbers, and the numbers
order them: the clock of a box may jump.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.types.protection.backup_schedules import (
    DEFAULT_HISTORY,
    SCHEDULE,
    SCHEDULE_UID,
    SEQUENCE,
    BackupSchedule,
)
from kvedge.resources.types.protection.backup_tasks import BackupTask, BackupTaskSpec, TaskAction
from kvedge.resources.types.protection.backup_tests import BackupTest, BackupTestSpec
from kvedge.resources.types.protection.backups import BackupRun, BackupRunSpec

# Of each action: the last one, and the one before it to compare with.
_TASKS_KEPT: Final = 2


def sequence_of(meta: ObjectMeta) -> int:
    """The number of a round; of what no schedule has made, or somebody has spoilt, 0."""
    text = meta.labels.get(SEQUENCE, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def run_name(schedule: BackupSchedule, vm: str, sequence: int) -> str:
    """The name of a VM's backup in a round."""
    return f"{vm}-{schedule.metadata.name}-{sequence:06}"


def make_run(schedule: BackupSchedule, vm: str, sequence: int) -> BackupRun:
    """The backup of one VM in a round. It is nobody's: what was done stays told when the schedule goes."""
    spec = schedule.spec
    return BackupRun(
        metadata=_meta(schedule, run_name(schedule, vm, sequence), sequence),
        spec=BackupRunSpec(vm_name=vm, repository_name=spec.repository_name, deadline=spec.deadline),
    )


def make_prune(schedule: BackupSchedule, vms: Sequence[str], sequence: int) -> BackupTask:
    """The task that lets old backups of these VMs go."""
    keep = schedule.spec.keep
    return _make_task(
        schedule, "Prune", f"{schedule.metadata.name}-prune-{sequence:06}", sequence, vm_names=list(vms), keep=keep
    )


def make_verification(schedule: BackupSchedule, due: datetime, sequence: int) -> BackupTask:
    """The task that reads the next part of the repository back."""
    name = f"{schedule.metadata.name}-verify-{due:%Y%m%d-%H%M%S}"
    return _make_task(schedule, "Verify", name, sequence, parts=schedule.spec.verify_parts)


def make_test(schedule: BackupSchedule, vm: str, backup_id: str, due: datetime, sequence: int) -> BackupTest:
    """The try to boot a VM's backup."""
    meta = _meta(schedule, f"{schedule.metadata.name}-test-{due:%Y%m%d-%H%M%S}", sequence)
    meta.owner_references = [owner_reference(schedule)]
    spec = BackupTestSpec(vm_name=vm, repository_name=schedule.spec.repository_name, backup_id=backup_id)
    return BackupTest(metadata=meta, spec=spec)


def latest_tests(tests: Iterable[BackupTest]) -> dict[str, BackupTest]:
    """The last one that has ended, by VM."""
    return {each.spec.vm_name: each for each in sorted(tests, key=order_of_tasks) if each.is_final}


def find_old_tests(tests: Sequence[BackupTest], vms: Sequence[str]) -> list[BackupTest]:
    """Ended ones that a later one of the same VM stands for, or whose VM the schedule does not mean any more."""
    stay = {each.metadata.uid for vm, each in latest_tests(tests).items() if vm in vms}
    return [
        each
        for each in tests
        if each.is_final and each.metadata.uid not in stay and each.metadata.deletion_timestamp is None
    ]


def find_old_runs(schedule: BackupSchedule, runs: Iterable[BackupRun]) -> list[BackupRun]:
    """Ended runs behind the limits of the history, VM by VM; the backups themselves stay in their repository."""
    spec, gone = schedule.spec, []
    limits = {"Succeeded": spec.successful_runs_history_limit, "Failed": spec.failed_runs_history_limit}
    seen: dict[tuple[str, str], int] = {}
    for run in sorted(runs, key=lambda each: sequence_of(each.metadata), reverse=True):
        phase, meta = run.status.phase, run.metadata
        if not run.is_final or meta.deletion_timestamp is not None:
            continue
        given = limits.get(phase)
        # The latest of each kind always stays: by it is told what is wrong, and what must not be pruned.
        most = max(1, DEFAULT_HISTORY if given is None else given)
        count = seen[run.spec.vm_name, phase] = seen.get((run.spec.vm_name, phase), 0) + 1
        if count > most:
            gone.append(run)
    return gone


def find_old_tasks(tasks: Iterable[BackupTask]) -> list[BackupTask]:
    """Ended tasks behind the last ones of their action."""
    seen: dict[str, int] = {}
    gone = []
    for task in sorted(tasks, key=order_of_tasks, reverse=True):
        if task.is_final and task.metadata.deletion_timestamp is None:
            count = seen[task.spec.action] = seen.get(task.spec.action, 0) + 1
            if count > _TASKS_KEPT:
                gone.append(task)
    return gone


def order_of_tasks(task: BackupTask | BackupTest) -> tuple[str, str]:
    """By which tasks of one action, or tests, follow each other."""
    return task.metadata.creation_timestamp or "", task.metadata.name


def _make_task(schedule: BackupSchedule, action: TaskAction, name: str, sequence: int, **spec: object) -> BackupTask:
    meta = _meta(schedule, name, sequence)
    meta.owner_references = [owner_reference(schedule)]
    return BackupTask(
        metadata=meta,
        spec=BackupTaskSpec(action=action, repository_name=schedule.spec.repository_name, **spec),  # type: ignore[arg-type] # its fields
    )


def _meta(schedule: BackupSchedule, name: str, sequence: int) -> ObjectMeta:
    meta = schedule.metadata
    labels = {SCHEDULE: meta.name, SCHEDULE_UID: meta.uid, SEQUENCE: str(sequence)}
    return ObjectMeta(name=name, namespace=meta.namespace, labels=labels)
