"""What has to be done for one errand in a repository now: a worker, and what it has found written down.

Called by the loop of tasks. Pure. What prunes or verifies has the repository for itself; whose backups may go, and
which of them are in use, is decided here anew for each worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.controller.backups.errand_status import plan_in_time, write_status
from kvedge.controller.backups.worker_pods import (
    MOST_ATTEMPTS,
    count_seconds_to_wait,
    has_ended,
    has_succeeded,
    job_of,
    outcome_of,
    repository_name,
    why_waiting,
    worker_pod,
)
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.kubevirt.condition_rules import with_condition
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode, encode_json
from kvedge.resources.meta import Condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import (
    LONGEST_JOB,
    BackupCatalog,
    BackupJob,
    BackupOutcome,
    PruneTarget,
)
from kvedge.resources.types.protection.backup_tasks import DEFAULT_PARTS, BackupTask, KeepRules
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.values.durations import parse_duration
from kvedge.runtime.clock import rfc3339

LOOK_SECONDS: Final = 5.0
# Somebody waits for a list, and it is short.
_LIST_SECONDS: Final = 1.0
_DEADLINE_SECONDS: Final = 24 * 3600.0
# A network that breaks looks like damage at first; what is damaged is so again.
_MOST_READS: Final = 2
_LONGEST: Final = 1000
MODES: Final = {"Prune": "prune", "Verify": "verify", "List": "list"}


class TaskView(Struct, frozen=True):
    """All that the plan judges.

    `targets` are the VMs whose backups may go, `absent` those of them that are not there; `rival` is what works in the
    repository now; `catalog` is what the worker of a list has just handed out.
    """

    task: BackupTask
    repository: BackupRepository | None
    worker: Pod | None
    cluster: ClusterConfig
    targets: Sequence[PruneTarget] = ()
    absent: Sequence[str] = ()
    rival: str = ""
    catalog: BackupCatalog | None = None
    token: str = ""
    refusal: str = ""


def plan_task(view: TaskView, now: datetime) -> SnapshotPlan:
    """The next steps."""
    task = view.task
    if task.metadata.deletion_timestamp is not None:
        return SnapshotPlan()
    if task.is_final:
        return SnapshotPlan(tuple(_clean_up(view)))
    seconds = parse_duration(task.spec.deadline) if task.spec.deadline else _DEADLINE_SECONDS
    return plan_in_time(task, seconds, now, lambda: _plan(view, now), lambda why: _fail(view, now, why))


def find_task_rival(
    task: BackupTask,
    tasks: Iterable[BackupTask],
    runs: Iterable[BackupRun],
    restores: Iterable[BackupRestore],
) -> str:
    """What works in the repository of a task, and must end first; empty for none. All are of that repository."""
    if not task.is_exclusive or task.status.phase == "Running":
        return ""
    for other in tasks:
        if other.metadata.uid == task.metadata.uid or other.is_final or not other.is_exclusive:
            continue
        if other.status.phase == "Running" or _age(other) < _age(task):
            return f"task {other.metadata.name}"
    for run in runs:
        if run.status.phase == "Copying":
            return f"backup {run.metadata.name}"
    for restore in restores:
        if restore.reads:
            return f"restore {restore.metadata.name}"
    return ""


def _plan(view: TaskView, now: datetime) -> SnapshotPlan:
    task, worker = view.task, view.worker
    if view.refusal:
        return _wait(view, now, view.refusal)
    if view.repository is None:
        return _wait(view, now, f"BackupRepository {task.spec.repository_name} does not exist")
    if worker is None:
        return _begin(view, view.repository, now)
    if worker.metadata.deletion_timestamp is not None:
        return SnapshotPlan((), (), 1.0)
    if view.catalog is not None:
        changed = {"backups": view.catalog.backups, "left_out": view.catalog.left_out or None}
        return _succeed(view, now, f"{len(view.catalog.backups)} backups", **changed)
    if not has_ended(worker):
        text = "" if worker.status.phase == "Running" else why_waiting(worker)
        again = _LIST_SECONDS if task.spec.action == "List" else LOOK_SECONDS
        return SnapshotPlan(tuple(write_status(view.task, now, phase="Running", message=text)), (), again)
    outcome = outcome_of(worker)
    if has_succeeded(worker):
        return _take_outcome(view, view.repository, worker, outcome, now)
    return _plan_failure(view, view.repository, worker, outcome, now)


def _begin(view: TaskView, repository: BackupRepository, now: datetime) -> SnapshotPlan:
    task, status = view.task, view.task.status
    if status.attempts >= MOST_ATTEMPTS:
        return _fail(view, now, status.message or "its workers were deleted again and again")
    if (wait := count_seconds_to_wait(status.attempts, status.attempt_time, now)) > 0:
        return SnapshotPlan((), (), wait)
    if view.rival:
        return _wait(view, now, f"{view.rival} has the repository")
    if task.spec.action == "Prune" and not view.targets:
        return _fail(view, now, f"no VM of these is there: {', '.join(view.absent)}"[:_LONGEST])
    part, parts = _next_part(task, repository)
    job = BackupJob(
        mode=MODES[task.spec.action],  # type: ignore[arg-type] # one of its words
        repository=repository_name(repository),
        is_known=True,
        namespace=task.metadata.namespace,
        targets=list(view.targets) if task.spec.action == "Prune" else [],
        keep=task.spec.keep or KeepRules(),
        backup_ids=task.spec.backup_ids,
        dry_run=bool(task.spec.dry_run),
        token=view.token,
        part=part,
        parts=parts,
    )
    if len(encode_json(job)) > LONGEST_JOB:
        return _fail(view, now, "too many VMs and backups for one task: name fewer")
    changed = {"part": part, "parts": parts} if task.spec.action == "Verify" else {}
    writes = write_status(view.task, now, phase="Running", message="", attempts=status.attempts + 1, **changed)
    return SnapshotPlan((*writes, Create(worker_pod(task, job, repository, {}, view.cluster))), (), LOOK_SECONDS)


def _next_part(task: BackupTask, repository: BackupRepository) -> tuple[int, int]:
    """Which part of how many is read; (1, 1) is all."""
    if task.spec.action != "Verify":
        return 0, 0
    if task.spec.full:
        return 1, 1
    parts = task.spec.parts or DEFAULT_PARTS
    before = repository.status
    # A turn of another number of parts begins anew: parts of different numbers do not add up.
    if before.parts != parts or not 1 <= (before.next_part or 0) <= parts:
        return 1, parts
    return before.next_part or 1, parts


def _take_outcome(
    view: TaskView, repository: BackupRepository, worker: Pod, outcome: BackupOutcome, now: datetime
) -> SnapshotPlan:
    match view.task.spec.action:
        case "Prune":
            changed: JsonObject = {"removed": outcome.removed, "kept": outcome.kept, "removed_ids": outcome.removed_ids}
            return _succeed(view, now, outcome.message, **changed)
        case "Verify":
            plan = _succeed(view, now, outcome.message)
            found = _tell_repository(repository, worker, outcome, now, is_whole=True)
            return SnapshotPlan((*found, *plan.actions), plan.told)
        case _:
            return _fail(view, now, "the worker that reads the list has ended before it was asked")


def _plan_failure(
    view: TaskView, repository: BackupRepository, worker: Pod, outcome: BackupOutcome, now: datetime
) -> SnapshotPlan:
    attempts = view.task.status.attempts
    if outcome.damaged and attempts >= _MOST_READS:
        plan = _fail(view, now, outcome.message)
        told = _tell_repository(repository, worker, outcome, now, is_whole=False)
        return SnapshotPlan((*told, *plan.actions), plan.told)
    # Damage is told the repository by the second look, though no further try can help.
    if (outcome.fatal and not outcome.damaged) or attempts >= MOST_ATTEMPTS:
        return _fail(view, now, outcome.message)
    # Waiting for somebody else is no try: another box may prune for hours.
    counted = attempts - 1 if outcome.locked else attempts
    text = f"attempt {attempts} of {MOST_ATTEMPTS} failed at {rfc3339(now)}: {outcome.message}"[:_LONGEST]
    writes = write_status(view.task, now, phase="Pending", message=text, attempts=counted, attempt_time=rfc3339(now))
    return SnapshotPlan((*writes, Delete(worker)), (Told("Warning", "TaskAttemptFailed", outcome.message),), 1.0)


def _tell_repository(
    repository: BackupRepository, worker: Pod, outcome: BackupOutcome, now: datetime, *, is_whole: bool
) -> list[SnapshotAction]:
    """What the repository's status says after a verification. Another look at the same worker says the same."""
    job, old = job_of(worker), repository.status
    if job is None:
        return []
    verified = Condition(
        type="Verified",
        status="True" if is_whole else "False",
        reason="Whole" if is_whole else "Damaged",
        message=outcome.message[:_LONGEST],
    )
    # A part that passes says nothing of one that was found damaged before it: only that one, or all of them, does.
    was = next((each for each in old.conditions if each.type == "Verified"), None)
    keeps = is_whole and was is not None and was.status == "False" and job.parts not in (1, old.parts)
    wanted = msgspec.structs.replace(
        old, conditions=old.conditions if keeps else with_condition(old.conditions, verified, now)
    )
    if job.parts > 1 and not keeps:
        wanted.parts = job.parts
        wanted.next_part = job.part % job.parts + 1 if is_whole else job.part
    if is_whole:
        wanted.last_verified_time = rfc3339(now)
        wanted.last_full_time = rfc3339(now) if job.part == job.parts else old.last_full_time
    body = merge_difference(encode(old), encode(wanted))
    return [Patch(repository, {"status": body}, "status")] if body else []


def _succeed(view: TaskView, now: datetime, message: str, **changed: object) -> SnapshotPlan:
    reason = {"Prune": "BackupsPruned", "Verify": "RepositoryVerified"}.get(view.task.spec.action, "")
    told = (Told("Normal", reason, message),) if reason else ()
    writes = write_status(view.task, now, phase="Succeeded", completion_time=rfc3339(now), message=message, **changed)
    return SnapshotPlan(tuple(writes), told)


def _fail(view: TaskView, now: datetime, message: str) -> SnapshotPlan:
    told = Told("Warning", "BackupTaskFailed", message)
    writes = write_status(view.task, now, phase="Failed", message=message[:_LONGEST], completion_time=rfc3339(now))
    return SnapshotPlan(tuple(writes), (told,))


def _wait(view: TaskView, now: datetime, message: str) -> SnapshotPlan:
    return SnapshotPlan(tuple(write_status(view.task, now, phase="Pending", message=message)), (), LOOK_SECONDS)


def _clean_up(view: TaskView) -> list[SnapshotAction]:
    worker = view.worker
    return [Delete(worker)] if worker is not None and worker.metadata.deletion_timestamp is None else []


def _age(task: BackupTask) -> tuple[str, str]:
    return task.metadata.creation_timestamp or "", task.metadata.uid
