"""What has to be done about a claim's worker: made once it can run, told of while it does, tried again when it failed.

Called by data_volume_plan.py for claims that nothing has filled yet. Pure. A worker that failed is counted on the claim
before it is deleted, and the next one is made after a wait that grows; what trying again cannot mend ends it as Failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from kvedge.controller.datavolumes.claim_plan import (
    ClaimProblem,
    binds_at_once,
    binds_late,
    claim_annotations,
    disk_size,
)
from kvedge.controller.datavolumes.data_volume_report import (
    IDLE,
    RUNNING_NAMES,
    annotate,
    annotate_changed,
    judge_bound,
    report,
    restarts_of,
    running_of,
)
from kvedge.controller.datavolumes.data_volume_status import (
    FAILED,
    PENDING,
    SUCCEEDED,
    WAITING,
    Outlook,
    State,
    complete_message,
    running_annotations,
    running_phase,
)
from kvedge.controller.datavolumes.data_volume_view import (
    Action,
    CreateWorker,
    DataVolumePlan,
    DataVolumeView,
    DeleteWorker,
)
from kvedge.controller.datavolumes.remote_clone_plan import is_remote, plan_sender
from kvedge.controller.datavolumes.workers.worker_job_plan import sender_job, worker_job
from kvedge.controller.datavolumes.workers.worker_outcome import WorkerSeen
from kvedge.controller.datavolumes.workers.worker_pod_manifest import WorkerPlace, sender_pod, worker_pod
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.resources import data_volume_names as names
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim

# Between a worker's end and the next one's start.
_FIRST_WAIT_SECONDS: Final = 5.0
_LONGEST_WAIT_SECONDS: Final = 300.0
# How often a worker that runs is asked for its progress.
PROGRESS_SECONDS: Final = 2.0


def restart_wait(restarts: int) -> float:
    """How many seconds lie between the end of a worker and the start of the next one."""
    return min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * float(1 << max(0, min(restarts, 16) - 1)))


def plan_begin(
    view: DataVolumeView, claim: PersistentVolumeClaim, bound: State, cluster: ClusterConfig, now: datetime
) -> DataVolumePlan:
    """No worker yet: one is made as soon as it can run."""
    dv, restarts = view.dv, restarts_of(claim)
    if claim.status.phase != "Bound":
        late = binds_late(view.storage.class_of(claim.spec.storage_class_name, virt=False))
        if not late:
            return report(view, Outlook(PENDING, bound, IDLE, restarts=restarts), now)
        if view.consumer is None and not binds_at_once(dv):
            return report(view, Outlook(WAITING, bound, IDLE, restarts=restarts), now)
    source = view.source
    if source is not None and (source.problem is not None or source.writer or source.claim is None):
        problem = source.problem or ClaimProblem("CloneSourceInUse", source.writer)
        running = State("False", problem.reason, problem.message)
        phase = "CloneScheduled" if source.problem is None else PENDING
        return report(view, Outlook(phase, bound, running, restarts=restarts), now, (), 10.0)
    size = disk_size(dv, claim, view.storage)
    copied = None if source is None else source.claim
    job = worker_job(dv, claim, size, copied, view.storage.config, cluster)
    pod = worker_pod(dv, job, WorkerPlace(claim, copied, view.consumer), cluster, view.storage.config)
    running = running_of(claim)
    if view.refused is not None:
        running = State("False", view.refused.reason, view.refused.message)
    phase = running_phase(dv, begun=False, ready=False)
    if bound.status == "True" and not dv.status.phase.endswith("Scheduled"):
        phase = "PVCBound"
    return report(
        view, Outlook(phase, bound, running, restarts=restarts), now, (CreateWorker(claim, pod, job.listens),)
    )


def plan_worker(
    view: DataVolumeView, claim: PersistentVolumeClaim, seen: WorkerSeen, cluster: ClusterConfig, now: datetime
) -> DataVolumePlan:
    dv, restarts = view.dv, restarts_of(claim)
    bound = judge_bound(claim)
    if seen.outcome is not None and seen.succeeded:
        return DataVolumePlan((annotate(claim, _make_done_annotations(dv, seen), seen.outcome.labels),))
    if seen.ended:
        return _plan_failed(view, claim, seen, now)
    if view.source is not None and view.source.writer:
        # A copy made now may be torn: the worker leaves nothing behind, and the next worker waits.
        torn = State("False", "CloneSourceInUse", view.source.writer)
        return report(view, Outlook("CloneScheduled", bound, torn, restarts=restarts), now, (DeleteWorker(seen.pod),))
    sends: tuple[Action, ...] = ()
    if view.source is not None and view.source.claim is not None and is_remote(dv, view.source.claim) and seen.ready:
        job = sender_job(claim, view.source.claim, seen.pod.status.pod_ip)
        made = sender_pod(dv, job, WorkerPlace(claim, view.source.claim), cluster, view.storage.config)
        action, sender = plan_sender(claim, made, view.senders)
        if sender is not None and sender.ended and not sender.succeeded:
            return _plan_failed(view, claim, sender, now)
        sends = () if action is None else (action,)
        # The copy waits for the same thing as its sender.
        seen = seen if sender is None or sender.running or sender.ended else replace(sender, pod=seen.pod)
    running = State("True", "Pod is running") if seen.running else seen.waiting
    phase = running_phase(dv, begun=seen.running, ready=seen.ready)
    wanted = {
        names.POD_PHASE: "Running" if seen.running else "Pending",
        names.POD_READY: "true" if seen.ready else "false",
        **running_annotations(RUNNING_NAMES, running),
    }
    outlook = Outlook(phase, bound, running, view.progress if seen.running else "", restarts)
    again = PROGRESS_SECONDS if seen.running or sends else None
    return report(view, outlook, now, (*annotate_changed(claim, wanted), *sends), again)


def _plan_failed(view: DataVolumeView, claim: PersistentVolumeClaim, seen: WorkerSeen, now: datetime) -> DataVolumePlan:
    """Counted first, then taken away, after a wait."""
    said = claim.metadata.annotations
    restarts = restarts_of(claim)
    running = State("False", seen.reason, seen.message)
    if said.get(names.COUNTED_WORKER) != seen.uid:
        wanted = {
            names.COUNTED_WORKER: seen.uid,
            names.POD_RESTARTS: str(restarts + (0 if seen.fatal else 1)),
            names.POD_READY: "false",
            names.POD_PHASE: FAILED if seen.fatal else "Pending",
            **running_annotations(RUNNING_NAMES, running),
        }
        if seen.fatal:
            wanted[names.FATAL_ERROR] = seen.message
        return DataVolumePlan((annotate(claim, wanted),))
    left = restart_wait(restarts) - seen.count_ended_seconds(now)
    phase = view.dv.status.phase or running_phase(view.dv, begun=False, ready=False)
    outlook = Outlook(phase, judge_bound(claim), running, restarts=restarts)
    if left > 0:
        return report(view, outlook, now, (), left)
    return report(view, outlook, now, (DeleteWorker(seen.pod),))


def _make_done_annotations(dv: DataVolume, seen: WorkerSeen) -> Mapping[str, str]:
    outcome = seen.outcome
    assert outcome is not None
    running = State("False", "Completed", outcome.message or complete_message(dv))
    made = {
        **claim_annotations(dv),
        names.POD_PHASE: SUCCEEDED,
        names.POD_READY: "false",
        **running_annotations(RUNNING_NAMES, running),
    }
    return {**made, names.PREALLOCATED: "true"} if outcome.preallocated else made
