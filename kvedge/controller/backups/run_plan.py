"""What has to be done for one backup of a VM now: a snapshot, then a worker that carries its copies away.

Called by the loop of runs. Pure. The snapshot is the point in time; the worker may be tried again from it as often as
needed, and writes the backup's record last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct

from kvedge.controller.backups.errand_status import plan_in_time, write_status
from kvedge.controller.backups.worker_pods import (
    MOST_ATTEMPTS,
    count_seconds_to_wait,
    has_ended,
    has_succeeded,
    outcome_of,
    repository_name,
    why_waiting,
    worker_pod,
)
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.snapshots.live_copies import is_live
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, SnapshotAction, SnapshotPlan, Told
from kvedge.resources.codec import encode, encode_json
from kvedge.resources.disks.snapshot_names import CLAIM_COPIES, METHOD
from kvedge.resources.meta import ObjectMeta, condition, owner_reference
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import LONGEST_JOB, BackupJob, BackupVolume
from kvedge.resources.types.protection.backups import BackupRepository, BackupRun
from kvedge.resources.types.protection.snapshots import (
    TypedReference,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VirtualMachineSnapshotSpec,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.durations import parse_duration
from kvedge.runtime.clock import rfc3339, seconds_since

# A backup that takes longer than a day stands in the way of the next one.
_DEADLINE_SECONDS: Final = 24 * 3600.0
LOOK_SECONDS: Final = 5.0
# Until then the moment of a running guest's disks must have come: as long as it has not, its VM is locked, and the
# snapshot, which has no deadline of its own, has a guest frozen again and again whose agent does not do it.
_MOMENT_SECONDS: Final = 15 * 60.0


class RunView(Struct, frozen=True):
    """All that the plan judges; `rival` is another run of the same VM that goes first.

    `is_known` says that a backup has gone into the repository before, `busy` is a task that has it for itself.
    """

    run: BackupRun
    repository: BackupRepository | None
    vm: VirtualMachine | None
    snapshot: VirtualMachineSnapshot | None
    content: VirtualMachineSnapshotContent | None
    claims: Mapping[str, PersistentVolumeClaim]
    worker: Pod | None
    cluster: ClusterConfig
    rival: str = ""
    refusal: str = ""
    progress: str = ""
    is_known: bool = False
    busy: str = ""


def plan_run(view: RunView, now: datetime) -> SnapshotPlan:
    """The next steps."""
    run = view.run
    if run.metadata.deletion_timestamp is not None:
        return SnapshotPlan()
    if run.is_final:
        return SnapshotPlan(tuple(_clean_up(view)))
    seconds = parse_duration(run.spec.deadline) if run.spec.deadline else _DEADLINE_SECONDS
    return plan_in_time(run, seconds, now, lambda: _plan(view, now), lambda why: _end(view, now, "Failed", why))


class RivalRun(NamedTuple):
    """A run of the same VM, and whether its repository is there."""

    run: BackupRun
    has_place: bool


def find_rival(run: BackupRun, others: Iterable[RivalRun]) -> str:
    """The run that goes before this one: one that has begun, or an older one that can; empty for none.

    One that waits for a repository that is not there holds up nobody.
    """
    if _has_begun(run):
        return ""
    for other, has_place in others:
        meta = other.metadata
        if meta.uid == run.metadata.uid or other.is_final or meta.deletion_timestamp is not None:
            continue
        if _has_begun(other) or (has_place and _age(other) < _age(run)):
            return meta.name
    return ""


def _has_begun(run: BackupRun) -> bool:
    return run.status.phase in ("Snapshotting", "Copying")


def _age(run: BackupRun) -> tuple[str, str]:
    return run.metadata.creation_timestamp or "", run.metadata.uid


def snapshot_name(run: BackupRun) -> str:
    """The snapshot that a run takes, or that it was told to use."""
    return run.spec.snapshot_name or f"backup-{run.metadata.uid}"


def _plan(view: RunView, now: datetime) -> SnapshotPlan:
    run = view.run
    if view.refusal:
        return _wait(view, now, view.refusal)
    if view.repository is None:
        return _wait(view, now, f"BackupRepository {run.spec.repository_name} does not exist")
    if view.vm is None and view.snapshot is None:
        return _wait(view, now, f"VM {run.spec.vm_name} does not exist")
    if view.rival:
        return _wait(view, now, f"backup {view.rival} of the VM goes first")
    if view.snapshot is None:
        if run.spec.snapshot_name:
            return _wait(view, now, f"VirtualMachineSnapshot {run.spec.snapshot_name} does not exist")
        if run.status.snapshot_name:
            return _end(view, now, "Failed", "its snapshot is gone before it was carried away: somebody has deleted it")
        return SnapshotPlan(
            (
                *write_status(
                    view.run, now, phase="Snapshotting", snapshot_name=snapshot_name(run), message="taking a snapshot"
                ),
                Create(_make_snapshot(run)),
            )
        )
    return _plan_snapshot(view, view.snapshot, now)


def _plan_snapshot(view: RunView, snapshot: VirtualMachineSnapshot, now: datetime) -> SnapshotPlan:
    status, name = snapshot.status, snapshot.metadata.name
    if snapshot.spec.source.name != view.run.spec.vm_name:
        return _end(view, now, "Failed", f"snapshot {name} is of VM {snapshot.spec.source.name}")
    if status.phase == "Failed":
        return _end(view, now, "Failed", f"snapshot {name} failed: {_describe(snapshot)}")
    if not status.ready_to_use or view.content is None:
        text = f"snapshot {name}: {_describe(snapshot)}"
        left = _count_seconds_to_moment(view, snapshot, now)
        if left is not None and left <= 0:
            return _end(view, now, "Failed", f"the disks were not at one moment within {_MOMENT_SECONDS:.0f} s: {text}")
        actions = write_status(view.run, now, phase="Snapshotting", snapshot_name=name, message=text)
        return SnapshotPlan(tuple(actions), again_after=left)
    return _plan_worker(view, view.content, now)


def _count_seconds_to_moment(view: RunView, snapshot: VirtualMachineSnapshot, now: datetime) -> float | None:
    """How long the moment of a running guest's disks may still be waited for; None when it has come, or none is."""
    content, own = view.content, not view.run.spec.snapshot_name
    if content is None or not own or not is_live(content) or snapshot.status.creation_time:
        return None
    waited = seconds_since(content.metadata.creation_timestamp, now)
    return None if waited is None else _MOMENT_SECONDS - waited


def _plan_worker(view: RunView, content: VirtualMachineSnapshotContent, now: datetime) -> SnapshotPlan:
    run, worker = view.run, view.worker
    if worker is None:
        if run.status.attempts >= MOST_ATTEMPTS:
            return _end(view, now, "Failed", run.status.message or "its workers were deleted again and again")
        if (wait := count_seconds_to_wait(run.status.attempts, run.status.attempt_time, now)) > 0:
            return SnapshotPlan((), (), wait)
        if view.busy:
            return _wait(view, now, f"task {view.busy} has the repository")
        return _begin_worker(view, content, now)
    if worker.metadata.deletion_timestamp is not None:
        return SnapshotPlan((), (), 1.0)
    if not has_ended(worker):
        text = "" if worker.status.phase == "Running" else why_waiting(worker)
        actions = write_status(
            view.run, now, phase="Copying", progress=view.progress or run.status.progress, message=text
        )
        return SnapshotPlan(tuple(actions), (), LOOK_SECONDS)
    outcome = outcome_of(worker)
    if has_succeeded(worker):
        told = Told("Normal", "BackupComplete", f"VM {run.spec.vm_name} is in {run.spec.repository_name}")
        names = [each.volume_name for each in content.spec.volume_backups if each.volume_snapshot_name]
        actions = write_status(
            view.run,
            now,
            phase="Succeeded",
            completion_time=rfc3339(now),
            backup_id=run.metadata.uid,
            progress="100.00%",
            size=outcome.size,
            added=outcome.added,
            volumes=names,
            message="",
        )
        return SnapshotPlan(tuple(actions), (told,))
    attempts = run.status.attempts
    if outcome.fatal or attempts >= MOST_ATTEMPTS:
        return _end(view, now, "Failed", outcome.message)
    told = Told("Warning", "BackupAttemptFailed", outcome.message)
    text = f"attempt {attempts} of {MOST_ATTEMPTS} failed at {rfc3339(now)}: {outcome.message}"
    # Waiting for somebody else is no try: another box may prune for hours.
    counted = attempts - 1 if outcome.locked else attempts
    writes = write_status(view.run, now, message=text, attempts=counted, attempt_time=rfc3339(now))
    return SnapshotPlan((*writes, Delete(worker)), (told,), 1.0)


def _begin_worker(view: RunView, content: VirtualMachineSnapshotContent, now: datetime) -> SnapshotPlan:
    run = view.run
    assert view.repository is not None
    volumes, claims = [], {}
    for number, backup in enumerate(content.spec.volume_backups):
        name = backup.volume_snapshot_name
        if name is None:
            continue
        claim = view.claims.get(name)
        if claim is None:
            return _wait(view, now, f"claim {name}, which holds the copy of volume {backup.volume_name}, is not seen")
        place = f"v{number}"
        claims[place] = (name, claim.is_block)
        volumes.append(BackupVolume(name=backup.volume_name, place=place, block=claim.is_block))
    snapshot = view.snapshot
    job = BackupJob(
        mode="backup",
        repository=repository_name(view.repository),
        is_known=view.is_known,
        backup_id=run.metadata.uid,
        namespace=run.metadata.namespace,
        vm=run.spec.vm_name,
        vm_uid="" if snapshot is None else snapshot.status.source_uid or "",
        time=(snapshot.status.creation_time if snapshot is not None else None) or rfc3339(now),
        volumes=volumes,
        content=encode(content.spec),
    )
    if len(encode_json(job)) > LONGEST_JOB:
        text = f"the VM and its claims, as documents, have more than {LONGEST_JOB >> 10} KiB: shorten its annotations"
        return _end(view, now, "Failed", text)
    pod = worker_pod(run, job, view.repository, claims, view.cluster)
    attempt = run.status.attempts + 1
    actions = write_status(view.run, now, phase="Copying", attempts=attempt, progress="")
    return SnapshotPlan((*actions, Create(pod)))


def _make_snapshot(run: BackupRun) -> VirtualMachineSnapshot:
    return VirtualMachineSnapshot(
        metadata=ObjectMeta(
            name=snapshot_name(run),
            namespace=run.metadata.namespace,
            # Its worker reads claims, also where a driver would take VolumeSnapshots.
            annotations={METHOD: CLAIM_COPIES},
            owner_references=[owner_reference(run)],
        ),
        spec=VirtualMachineSnapshotSpec(
            source=TypedReference(
                api_group=VirtualMachine.KIND.group, kind=VirtualMachine.KIND.kind, name=run.spec.vm_name
            ),
            # The run has a deadline of its own.
            failure_deadline="0s",
        ),
    )


def _describe(snapshot: VirtualMachineSnapshot) -> str:
    error = snapshot.status.error
    if error is not None and error.message:
        return error.message
    for type_ in ("Failure", "Progressing"):
        found = condition(snapshot.status.conditions, type_)
        if found is not None and found.reason:
            return f"{found.reason}: {found.message}" if found.message else found.reason
    return "not seen by its controller yet"


def _wait(view: RunView, now: datetime, message: str) -> SnapshotPlan:
    phase = view.run.status.phase or "Pending"
    return SnapshotPlan(tuple(write_status(view.run, now, phase=phase, message=message)), (), LOOK_SECONDS)


def _end(view: RunView, now: datetime, phase: str, message: str) -> SnapshotPlan:
    told = Told("Warning", "BackupFailed", message)
    return SnapshotPlan(
        tuple(write_status(view.run, now, phase=phase, message=message, completion_time=rfc3339(now))), (told,)
    )


def _clean_up(view: RunView) -> list[SnapshotAction]:
    """A worker and a snapshot that this run has made."""
    made: list[SnapshotAction] = []
    if view.worker is not None and view.worker.metadata.deletion_timestamp is None:
        made.append(Delete(view.worker))
    snapshot = view.snapshot
    if snapshot is not None and not view.run.spec.snapshot_name and snapshot.metadata.deletion_timestamp is None:
        made.append(Delete(snapshot))
    return made
