"""What has to be done about one DataVolume now: its claim, its worker, its status.

Called by data_volume_loop.py. Pure: what was seen goes in, actions in their order come out. A worker that failed is
counted on the claim before it is deleted, and the next one is made after a wait that grows; what trying again cannot
mend ends it as Failed. All that must outlive the controller stands in the claim's annotations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeAlias

from kvedge.controller.datavolumes.claim_plan import (
    ClaimProblem,
    StorageSeen,
    binds_at_once,
    binds_late,
    claim_annotations,
    claim_size,
    disk_size,
    merge_owner,
    plan_claim,
    wanted_size,
)
from kvedge.controller.datavolumes.data_volume_status import (
    FAILED,
    PENDING,
    SUCCEEDED,
    WAITING,
    Outlook,
    State,
    Told,
    changes_told,
    complete_message,
    next_status,
    running_annotations,
    running_phase,
)
from kvedge.controller.datavolumes.remote_clone_plan import SenderAction, is_remote, plan_sender, takes_data
from kvedge.controller.datavolumes.worker_job_plan import sender_job, worker_job
from kvedge.controller.datavolumes.worker_outcome import WorkerSeen, look_at_worker
from kvedge.controller.datavolumes.worker_pod_manifest import WorkerPlace, sender_pod, worker_pod
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.kube.patches import merge_difference
from kvedge.resources import data_volume_names as names
from kvedge.resources.claim_facts import waits_for_upload
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.data_volume_checks import data_volume_problems
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.whole_numbers import whole_number

_RUNNING_NAMES: Final = (names.RUNNING, names.RUNNING_REASON, names.RUNNING_MESSAGE)
# Between a worker's end and the next one's start.
_FIRST_WAIT_SECONDS: Final = 5.0
_LONGEST_WAIT_SECONDS: Final = 300.0
# How often a worker that runs is asked for its progress.
PROGRESS_SECONDS: Final = 2.0
# What is missing may come without a change that is watched.
_LOOK_AGAIN_SECONDS: Final = 30.0
_IDLE: Final = State("False")
_EXISTS: Final = "ErrResourceExists"


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Make the claim."""

    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class PatchClaim:
    """Change the claim; `body` is a merge patch for the version that was read."""

    claim: PersistentVolumeClaim
    body: JsonObject


@dataclass(frozen=True, slots=True)
class CreateWorker:
    """Start a worker; `upload` needs a certificate first."""

    claim: PersistentVolumeClaim
    pod: Pod
    upload: bool


@dataclass(frozen=True, slots=True)
class DeleteWorker:
    """End a worker, or take away one that has ended."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Change the status; `body` is a merge patch for the version that was read."""

    body: JsonObject


Action: TypeAlias = CreateClaim | PatchClaim | CreateWorker | DeleteWorker | PatchStatus | SenderAction


@dataclass(frozen=True, slots=True)
class DataVolumePlan:
    """Actions in order, events, and in how many seconds to look again when nothing changes."""

    actions: tuple[Action, ...] = ()
    told: tuple[Told, ...] = ()
    again_after: float | None = None


@dataclass(frozen=True, slots=True)
class SourceSeen:
    """What a clone copies: the claim, or why it cannot be had (a reason and a text), and who writes it."""

    claim: PersistentVolumeClaim | None = None
    problem: ClaimProblem | None = None
    writer: str = ""


@dataclass(slots=True)
class DataVolumeView:
    """A DataVolume, the claim of its name, its own workers, the guest that waits for the claim, and the storage there
    is. `refused` is why the claim or the worker could not be made, at the last attempt."""

    dv: DataVolume
    claim: PersistentVolumeClaim | None = None
    workers: Sequence[Pod] = ()
    consumer: VirtualMachineInstance | None = None
    source: SourceSeen | None = None
    storage: StorageSeen = field(default_factory=StorageSeen)
    progress: str = ""
    refused: ClaimProblem | None = None
    # What sends a claim of another namespace to the worker.
    senders: Sequence[Pod] = ()


def plan_data_volume(view: DataVolumeView, cluster: ClusterConfig, now: datetime) -> DataVolumePlan:
    """What to do."""
    plan = _plan(view, cluster, now)
    source = view.source
    copies = source is not None and source.problem is None and not source.writer
    is_needed = copies and view.dv.metadata.deletion_timestamp is None and takes_data(view.claim, view.workers)
    stale = () if is_needed else tuple(DeleteWorker(pod) for pod in view.senders if not _goes(pod))
    return replace(plan, actions=(*plan.actions, *stale)) if stale else plan


def _plan(view: DataVolumeView, cluster: ClusterConfig, now: datetime) -> DataVolumePlan:
    dv, claim = view.dv, view.claim
    if dv.metadata.deletion_timestamp is not None:
        # The garbage collector takes the claim and the workers: they are owned.
        return DataVolumePlan(tuple(DeleteWorker(pod) for pod in view.workers if not _goes(pod)))
    if claim is None:
        return _plan_without_claim(view, now)
    if claim.metadata.deletion_timestamp is not None:
        # Its protection waits for the workers; another claim is made when it has gone.
        text = f'Resource "{claim.metadata.name}" is marked for deletion'
        bound = State("False", "ErrResourceMarkedForDeletion", text)
        gone = tuple(DeleteWorker(pod) for pod in view.workers if not _goes(pod))
        return _told(view, Outlook(PENDING, bound, _IDLE), now, gone)
    owner = claim.metadata.controller_reference()
    if owner is None or owner.uid != dv.metadata.uid:
        return _plan_foreign(view, claim, now)
    if claim.status.phase == "Lost":
        return _told(view, Outlook(FAILED, State("False", "ClaimLost", "Claim Lost"), _IDLE), now)
    return _plan_claimed(view, claim, cluster, now)


def restart_wait(restarts: int) -> float:
    """How many seconds lie between the end of a worker and the start of the next one."""
    return min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * float(1 << max(0, min(restarts, 16) - 1)))


def _plan_without_claim(view: DataVolumeView, now: datetime) -> DataVolumePlan:
    dv = view.dv
    stale = tuple(DeleteWorker(pod) for pod in view.workers if not _goes(pod))
    if names.PRE_POPULATED in dv.metadata.annotations:
        # Somebody restores the claim; a new one would be empty.
        return _told(view, Outlook(PENDING, State("False", "NotFound", "No PVC found"), _IDLE), now, stale)
    source = view.source
    wrong = next(data_volume_problems(dv.spec), None)
    if wrong is not None:
        # It entered before this release, or while nobody judged it.
        bound = State("False", "ErrClaimNotValid", f"spec.{wrong[0]}: {wrong[1]}")
        return _told(view, Outlook(PENDING, bound, _IDLE), now, stale)
    made = plan_claim(dv, view.storage, None if source is None else source.claim)
    problem = None if source is None else source.problem or _too_small(dv, source)
    if problem is None and isinstance(made, ClaimProblem):
        problem = made
    if problem is not None:
        bound = State("False", problem.reason, problem.message)
        return _told(view, Outlook(PENDING, bound, _IDLE), now, stale, _LOOK_AGAIN_SECONDS)
    assert isinstance(made, PersistentVolumeClaim)
    if view.source is not None and view.source.claim is not None:
        _describe(made, view.source.claim)
    bound = State("False", "NotFound", "No PVC found")
    if view.refused is not None:
        bound = State("False", view.refused.reason, view.refused.message)
    if view.workers:
        # What the worker of the claim before says is nothing to the new one.
        return _told(view, Outlook(PENDING, bound, _IDLE), now, stale)
    return _told(view, Outlook(PENDING, bound, _IDLE), now, (CreateClaim(made),))


def _describe(claim: PersistentVolumeClaim, source: PersistentVolumeClaim) -> None:
    described = {
        key: value for key, value in source.metadata.labels.items() if key.startswith(names.INSTANCETYPE_LABELS)
    }
    claim.metadata.labels = {**described, **claim.metadata.labels}


def _too_small(dv: DataVolume, source: SourceSeen) -> ClaimProblem | None:
    wanted = wanted_size(dv)
    if source.claim is None or not wanted:
        return None
    there = claim_size(source.claim)
    if dv.spec.storage is not None and not source.claim.is_block and dv.spec.storage.volume_mode != "Block":
        # What is asked for is the disk's size, and a claim is larger than its disk.
        return None
    if wanted >= there:
        return None
    text = f"target resources requests storage size is smaller than the source {wanted} < {there}"
    return ClaimProblem("CloneValidationFailed", text)


def _plan_foreign(view: DataVolumeView, claim: PersistentVolumeClaim, now: datetime) -> DataVolumePlan:
    """A claim of that name that is not ours: adopted if that was asked for, else in the way."""
    dv, owner = view.dv, claim.metadata.controller_reference()
    asked = dv.metadata.annotations
    populated = asked.get(names.PRE_POPULATED) == claim.metadata.name
    adopts = asked.get(names.ALLOW_ADOPTION) == "true"
    if owner is None and (populated or adopts):
        if waits_for_upload(claim):
            # Its guest would start on a disk over which the upload's worker puts the image later.
            text = (
                f"waits for the upload into PVC {claim.metadata.name}, which is taken over once it is filled: `kvedge"
                f" image-upload pvc {claim.metadata.name} --no-create --image-path FILE`, or take the annotation"
                f" {names.UPLOAD_TARGET} off it"
            )
            return _told(view, Outlook(PENDING, _bound(claim), State("False", _EXISTS, text)), now, (), 60.0)
        body = merge_owner(claim, dv)
        body["metadata"]["annotations"] = {names.POPULATED_FOR: dv.metadata.name, names.POD_PHASE: SUCCEEDED}
        return DataVolumePlan((PatchClaim(claim, body),))
    text = f'Resource "{claim.metadata.name}" already exists and is not managed by DataVolume'
    return _told(view, Outlook(PENDING, State("False", _EXISTS, text), _IDLE), now, (), 60.0)


def _plan_claimed(
    view: DataVolumeView, claim: PersistentVolumeClaim, cluster: ClusterConfig, now: datetime
) -> DataVolumePlan:
    dv, said = view.dv, claim.metadata.annotations
    bound = _bound(claim)
    if said.get(names.POD_PHASE) == SUCCEEDED:
        return _plan_done(view, claim, bound, now)
    if names.FATAL_ERROR in said:
        running = State("False", said.get(names.RUNNING_REASON, "Error"), said[names.FATAL_ERROR])
        return _told(view, Outlook(FAILED, bound, running, restarts=_restarts(claim)), now)
    if _is_filled_already(dv, claim) or _was_filled(dv, claim):
        return DataVolumePlan((_annotate(claim, {**claim_annotations(dv), names.POD_PHASE: SUCCEEDED}),))
    if _is_filled_elsewhere(dv):
        if bound.status == "True":
            return DataVolumePlan((_annotate(claim, {names.POD_PHASE: SUCCEEDED}),))
        return _told(view, Outlook(PENDING, bound, _IDLE), now)
    worker = next((pod for pod in view.workers if not _goes(pod)), None)
    if worker is not None:
        return _plan_worker(view, claim, look_at_worker(worker), cluster, now)
    if view.workers:
        # The last one still ends.
        phase = dv.status.phase or PENDING
        return _told(view, Outlook(phase, bound, _running_of(claim), restarts=_restarts(claim)), now)
    return _plan_begin(view, claim, bound, cluster, now)


def _was_filled(dv: DataVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether this claim was filled before and has lost its mark: its guest has written since, so it is marked again.

    A claim that was made after the DataVolume became ready is another one, and empty.
    """
    ready = next((item for item in dv.status.conditions if item.type == "Ready" and item.status == "True"), None)
    made = claim.metadata.creation_timestamp
    if dv.status.phase != SUCCEEDED or ready is None or not ready.last_transition_time or not made:
        return False
    # Both as the API writes times, in whole seconds of UTC.
    return made < ready.last_transition_time


def _plan_begin(
    view: DataVolumeView, claim: PersistentVolumeClaim, bound: State, cluster: ClusterConfig, now: datetime
) -> DataVolumePlan:
    """No worker yet: one is made as soon as it can run."""
    dv, restarts = view.dv, _restarts(claim)
    if claim.status.phase != "Bound":
        late = binds_late(view.storage.class_of(claim.spec.storage_class_name, virt=False))
        if not late:
            return _told(view, Outlook(PENDING, bound, _IDLE, restarts=restarts), now)
        if view.consumer is None and not binds_at_once(dv):
            return _told(view, Outlook(WAITING, bound, _IDLE, restarts=restarts), now)
    source = view.source
    if source is not None and (source.problem is not None or source.writer or source.claim is None):
        problem = source.problem or ClaimProblem("CloneSourceInUse", source.writer)
        running = State("False", problem.reason, problem.message)
        phase = "CloneScheduled" if source.problem is None else PENDING
        return _told(view, Outlook(phase, bound, running, restarts=restarts), now, (), 10.0)
    size = disk_size(dv, claim, view.storage)
    copied = None if source is None else source.claim
    job = worker_job(dv, claim, size, copied, view.storage.config, cluster)
    pod = worker_pod(dv, job, WorkerPlace(claim, copied, view.consumer), cluster, view.storage.config)
    running = _running_of(claim)
    if view.refused is not None:
        running = State("False", view.refused.reason, view.refused.message)
    phase = running_phase(dv, begun=False, ready=False)
    if bound.status == "True" and not dv.status.phase.endswith("Scheduled"):
        phase = "PVCBound"
    return _told(view, Outlook(phase, bound, running, restarts=restarts), now, (CreateWorker(claim, pod, job.listens),))


def _plan_worker(
    view: DataVolumeView, claim: PersistentVolumeClaim, seen: WorkerSeen, cluster: ClusterConfig, now: datetime
) -> DataVolumePlan:
    dv, restarts = view.dv, _restarts(claim)
    bound = _bound(claim)
    if seen.outcome is not None and seen.succeeded:
        return DataVolumePlan((_annotate(claim, _done_annotations(dv, seen), seen.outcome.labels),))
    if seen.ended:
        return _plan_failed(view, claim, seen, now)
    if view.source is not None and view.source.writer:
        # What is copied now may be torn: the worker leaves nothing behind, and the next one waits.
        torn = State("False", "CloneSourceInUse", view.source.writer)
        return _told(view, Outlook("CloneScheduled", bound, torn, restarts=restarts), now, (DeleteWorker(seen.pod),))
    sends: tuple[Action, ...] = ()
    if view.source is not None and view.source.claim is not None and is_remote(dv, view.source.claim) and seen.ready:
        job = sender_job(claim, view.source.claim, seen.pod.status.pod_ip)
        made = sender_pod(dv, job, WorkerPlace(claim, view.source.claim), cluster, view.storage.config)
        action, sender = plan_sender(claim, made, view.senders)
        if sender is not None and sender.ended and not sender.succeeded:
            return _plan_failed(view, claim, sender, now)
        sends = () if action is None else (action,)
        # What the sender waits for is what keeps the copy.
        seen = seen if sender is None or sender.running or sender.ended else replace(sender, pod=seen.pod)
    running = State("True", "Pod is running") if seen.running else seen.waiting
    phase = running_phase(dv, begun=seen.running, ready=seen.ready)
    wanted = {
        names.POD_PHASE: "Running" if seen.running else "Pending",
        names.POD_READY: "true" if seen.ready else "false",
        **running_annotations(_RUNNING_NAMES, running),
    }
    outlook = Outlook(phase, bound, running, view.progress if seen.running else "", restarts)
    again = PROGRESS_SECONDS if seen.running or sends else None
    return _told(view, outlook, now, (*_annotations(claim, wanted), *sends), again)


def _plan_failed(view: DataVolumeView, claim: PersistentVolumeClaim, seen: WorkerSeen, now: datetime) -> DataVolumePlan:
    """Counted first, then taken away, after a wait."""
    said = claim.metadata.annotations
    restarts = _restarts(claim)
    running = State("False", seen.reason, seen.message)
    if said.get(names.COUNTED_WORKER) != seen.uid:
        wanted = {
            names.COUNTED_WORKER: seen.uid,
            names.POD_RESTARTS: str(restarts + (0 if seen.fatal else 1)),
            names.POD_READY: "false",
            names.POD_PHASE: FAILED if seen.fatal else "Pending",
            **running_annotations(_RUNNING_NAMES, running),
        }
        if seen.fatal:
            wanted[names.FATAL_ERROR] = seen.message
        return DataVolumePlan((_annotate(claim, wanted),))
    left = restart_wait(restarts) - seen.ended_seconds(now)
    phase = view.dv.status.phase or running_phase(view.dv, begun=False, ready=False)
    outlook = Outlook(phase, _bound(claim), running, restarts=restarts)
    if left > 0:
        return _told(view, outlook, now, (), left)
    return _told(view, outlook, now, (DeleteWorker(seen.pod),))


def _plan_done(view: DataVolumeView, claim: PersistentVolumeClaim, bound: State, now: datetime) -> DataVolumePlan:
    running = State("False", "Completed", complete_message(view.dv))
    kept = names.RETAIN_POD in view.dv.metadata.annotations
    gone = () if kept else tuple(DeleteWorker(pod) for pod in view.workers if not _goes(pod))
    return _told(view, Outlook(SUCCEEDED, bound, running, restarts=_restarts(claim)), now, gone)


def _done_annotations(dv: DataVolume, seen: WorkerSeen) -> Mapping[str, str]:
    outcome = seen.outcome
    assert outcome is not None
    running = State("False", "Completed", outcome.message or complete_message(dv))
    made = {
        **claim_annotations(dv),
        names.POD_PHASE: SUCCEEDED,
        names.POD_READY: "false",
        **running_annotations(_RUNNING_NAMES, running),
    }
    return {**made, names.PREALLOCATED: "true"} if outcome.preallocated else made


def _is_filled_already(dv: DataVolume, claim: PersistentVolumeClaim) -> bool:
    asked, said = dv.metadata.annotations, claim.metadata.annotations
    if asked.get(names.PRE_POPULATED) == claim.metadata.name or said.get(names.POPULATED_FOR) == dv.metadata.name:
        return True
    named = dv.spec.storage.volume_name if dv.spec.storage else dv.spec.pvc.volume_name if dv.spec.pvc else ""
    return names.STATIC_VOLUME in asked and bool(named) and claim.status.phase == "Bound"


def _is_filled_elsewhere(dv: DataVolume) -> bool:
    if dv.metadata.annotations.get(names.EXTERNAL_POPULATION) == "true":
        return True
    spec = dv.spec.storage or dv.spec.pvc
    return dv.spec.source is None and spec is not None and bool(spec.data_source or spec.data_source_ref)


def _bound(claim: PersistentVolumeClaim) -> State:
    name = claim.metadata.name
    if claim.status.phase == "Bound":
        return State("True", "Bound", f"PVC {name} Bound")
    return State("False", "Pending", f"PVC {name} Pending")


def _running_of(claim: PersistentVolumeClaim) -> State:
    said = claim.metadata.annotations
    return State("False", said.get(names.RUNNING_REASON, ""), said.get(names.RUNNING_MESSAGE, ""))


def _restarts(claim: PersistentVolumeClaim) -> int:
    return whole_number(claim.metadata.annotations.get(names.POD_RESTARTS, "")) or 0


def _goes(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _annotate(
    claim: PersistentVolumeClaim, wanted: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> PatchClaim:
    metadata: JsonObject = {"annotations": dict(wanted)}
    new = {key: value for key, value in (labels or {}).items() if claim.metadata.labels.get(key) != value}
    return PatchClaim(claim, {"metadata": {**metadata, "labels": new} if new else metadata})


def _annotations(claim: PersistentVolumeClaim, wanted: Mapping[str, str]) -> tuple[PatchClaim, ...]:
    said = claim.metadata.annotations
    changed = {key: value for key, value in wanted.items() if said.get(key) != value}
    return (_annotate(claim, changed),) if changed else ()


def _told(
    view: DataVolumeView,
    outlook: Outlook,
    now: datetime,
    actions: Sequence[Action] = (),
    again_after: float | None = None,
) -> DataVolumePlan:
    """The status first: what is seen is said before it changes."""
    dv = view.dv
    status = next_status(dv, outlook, now)
    body = merge_difference(encode(dv.status), encode(status))
    written: tuple[Action, ...] = (PatchStatus({"status": body}),) if body else ()
    told = tuple(changes_told(dv, outlook)) if body else ()
    return DataVolumePlan((*written, *actions), told, again_after)
