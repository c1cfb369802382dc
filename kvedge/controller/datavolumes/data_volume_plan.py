"""What has to be done about one DataVolume now: its claim, its worker, its status.

Called by data_volume_loop.py. Pure: what was seen goes in, actions in their order come out. All that must outlive the
controller stands in the claim's annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from kvedge.controller.datavolumes.claim_plan import (
    ClaimProblem,
    StorageSeen,
    binds_late,
    claim_annotations,
    claim_size,
    merge_owner,
    parse_wanted_size,
    plan_claim,
)
from kvedge.controller.datavolumes.data_volume_report import (
    IDLE,
    annotate,
    goes,
    judge_bound,
    report,
    restarts_of,
    running_of,
)
from kvedge.controller.datavolumes.data_volume_status import (
    FAILED,
    PENDING,
    PENDING_POPULATION,
    SUCCEEDED,
    Outlook,
    State,
    complete_message,
)
from kvedge.controller.datavolumes.data_volume_view import (
    CreateClaim,
    DataVolumePlan,
    DataVolumeView,
    DeleteWorker,
    LabelDataVolume,
    PatchClaim,
    SourceSeen,
)
from kvedge.controller.datavolumes.remote_clone_plan import takes_data
from kvedge.controller.datavolumes.snapshot_sources import data_source, is_made_of_snapshot
from kvedge.controller.datavolumes.worker_plan import plan_begin, plan_worker
from kvedge.controller.datavolumes.workers.worker_outcome import look_at_worker
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.resources import data_volume_names as names
from kvedge.resources.disks.claim_facts import waits_for_upload
from kvedge.resources.disks.data_volume_checks import data_volume_problems
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim

# A missing object may come without a change that is watched.
_LOOK_AGAIN_SECONDS: Final = 30.0
_EXISTS: Final = "ErrResourceExists"


def plan_data_volume(view: DataVolumeView, cluster: ClusterConfig, now: datetime) -> DataVolumePlan:
    """What to do."""
    plan = _plan(view, cluster, now)
    source = view.source
    copies = source is not None and source.problem is None and not source.writer
    is_needed = copies and view.dv.metadata.deletion_timestamp is None and takes_data(view.claim, view.workers)
    stale = () if is_needed else tuple(DeleteWorker(pod) for pod in view.senders if not goes(pod))
    return replace(plan, actions=(*plan.actions, *stale)) if stale else plan


def _plan(view: DataVolumeView, cluster: ClusterConfig, now: datetime) -> DataVolumePlan:
    dv, claim = view.dv, view.claim
    if dv.metadata.deletion_timestamp is not None:
        # The garbage collector takes the claim and the workers: they are owned.
        return DataVolumePlan(tuple(DeleteWorker(pod) for pod in view.workers if not goes(pod)))
    if claim is None:
        return _plan_without_claim(view, now)
    if claim.metadata.deletion_timestamp is not None:
        # Its protection waits for the workers; another claim is made when it has gone.
        text = f'Resource "{claim.metadata.name}" is marked for deletion'
        bound = State("False", "ErrResourceMarkedForDeletion", text)
        gone = tuple(DeleteWorker(pod) for pod in view.workers if not goes(pod))
        return report(view, Outlook(PENDING, bound, IDLE), now, gone)
    owner = claim.metadata.controller_reference()
    if owner is None or owner.uid != dv.metadata.uid:
        return _plan_foreign(view, claim, now)
    if claim.status.phase == "Lost":
        return report(view, Outlook(FAILED, State("False", "ClaimLost", "Claim Lost"), IDLE), now)
    return _plan_claimed(view, claim, cluster, now)


def _plan_without_claim(view: DataVolumeView, now: datetime) -> DataVolumePlan:
    dv = view.dv
    stale = tuple(DeleteWorker(pod) for pod in view.workers if not goes(pod))
    if names.PRE_POPULATED in dv.metadata.annotations:
        # Somebody restores the claim; a new one would be empty.
        return report(view, Outlook(PENDING, State("False", "NotFound", "No PVC found"), IDLE), now, stale)
    source = view.source
    wrong = next(data_volume_problems(dv.spec), None)
    if wrong is not None:
        # It entered before this release, or while nobody judged it.
        bound = State("False", "ErrClaimNotValid", f"spec.{wrong[0]}: {wrong[1]}")
        return report(view, Outlook(PENDING, bound, IDLE), now, stale)
    made = _plan_claim_of(dv, view.storage, source)
    problem = None if source is None else source.problem or _too_small(dv, source, made)
    if problem is None and isinstance(made, ClaimProblem):
        problem = made
    if problem is not None:
        bound = State("False", problem.reason, problem.message)
        return report(view, Outlook(PENDING, bound, IDLE), now, stale, _LOOK_AGAIN_SECONDS)
    assert isinstance(made, PersistentVolumeClaim)
    if source is not None and source.model is not None:
        _describe(made, source.model)
    if source is not None and source.snapshot:
        made.spec.data_source = data_source(source.snapshot)
    bound = State("False", "NotFound", "No PVC found")
    if view.refused is not None:
        bound = State("False", view.refused.reason, view.refused.message)
    if view.workers:
        # The worker of the claim before says nothing about the new one.
        return report(view, Outlook(PENDING, bound, IDLE), now, stale)
    return report(view, Outlook(PENDING, bound, IDLE), now, (CreateClaim(made),))


def _plan_claim_of(
    dv: DataVolume, storage: StorageSeen, source: SourceSeen | None
) -> PersistentVolumeClaim | ClaimProblem:
    if source is None:
        return plan_claim(dv, storage, None)
    return plan_claim(dv, storage, source.model, None if source.like is None else source.like.spec.volume_mode)


def _describe(claim: PersistentVolumeClaim, source: PersistentVolumeClaim) -> None:
    claim.metadata.labels = {**_description(source.metadata.labels), **claim.metadata.labels}


def _description(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key.startswith(names.INSTANCETYPE_LABELS)}


def _too_small(dv: DataVolume, source: SourceSeen, made: PersistentVolumeClaim | ClaimProblem) -> ClaimProblem | None:
    wanted = parse_wanted_size(dv)
    if source.like is not None and isinstance(made, PersistentVolumeClaim):
        # No driver makes a smaller one.
        return _judge_size(claim_size(made), claim_size(source.like))
    if source.claim is None or not wanted:
        return None
    there = claim_size(source.claim)
    if dv.spec.storage is not None and not source.claim.is_block and dv.spec.storage.volume_mode != "Block":
        # The DataVolume names the disk's size, and a claim is larger than its disk.
        return None
    return _judge_size(wanted, there)


def _judge_size(wanted: int, there: int) -> ClaimProblem | None:
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
            return report(view, Outlook(PENDING, judge_bound(claim), State("False", _EXISTS, text)), now, (), 60.0)
        body = merge_owner(claim, dv)
        body["metadata"]["annotations"] = {names.POPULATED_FOR: dv.metadata.name, names.POD_PHASE: SUCCEEDED}
        return DataVolumePlan((PatchClaim(claim, body),))
    text = f'Resource "{claim.metadata.name}" already exists and is not managed by DataVolume'
    return report(view, Outlook(PENDING, State("False", _EXISTS, text), IDLE), now, (), 60.0)


def _plan_claimed(
    view: DataVolumeView, claim: PersistentVolumeClaim, cluster: ClusterConfig, now: datetime
) -> DataVolumePlan:
    dv, said = view.dv, claim.metadata.annotations
    bound = judge_bound(claim)
    if said.get(names.POD_PHASE) == SUCCEEDED:
        return _plan_done(view, claim, bound, now)
    if names.FATAL_ERROR in said:
        running = State("False", said.get(names.RUNNING_REASON, "Error"), said[names.FATAL_ERROR])
        return report(view, Outlook(FAILED, bound, running, restarts=restarts_of(claim)), now)
    if _is_filled_already(dv, claim) or _was_filled(dv, claim):
        return DataVolumePlan((annotate(claim, {**claim_annotations(dv), names.POD_PHASE: SUCCEEDED}),))
    if _is_filled_elsewhere(dv) or is_made_of_snapshot(claim):
        if bound.status == "True":
            return DataVolumePlan((annotate(claim, {names.POD_PHASE: SUCCEEDED}),))
        late = binds_late(view.storage.class_of(claim.spec.storage_class_name, virt=False))
        return report(view, Outlook(PENDING_POPULATION if late else PENDING, bound, IDLE), now)
    worker = next((pod for pod in view.workers if not goes(pod)), None)
    if worker is not None:
        return plan_worker(view, claim, look_at_worker(worker), cluster, now)
    if view.workers:
        # The last one still ends.
        phase = dv.status.phase or PENDING
        return report(view, Outlook(phase, bound, running_of(claim), restarts=restarts_of(claim)), now)
    return plan_begin(view, claim, bound, cluster, now)


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


def _plan_done(view: DataVolumeView, claim: PersistentVolumeClaim, bound: State, now: datetime) -> DataVolumePlan:
    running = State("False", "Completed", complete_message(view.dv))
    kept = names.RETAIN_POD in view.dv.metadata.annotations
    gone = () if kept else tuple(DeleteWorker(pod) for pod in view.workers if not goes(pod))
    # As with CDI, a DataVolume tells what its claim does, unless it tells something of its own.
    new = {} if _description(view.dv.metadata.labels) else _description(claim.metadata.labels)
    told = (LabelDataVolume(new),) if new else ()
    return report(view, Outlook(SUCCEEDED, bound, running, restarts=restarts_of(claim)), now, (*gone, *told))


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
