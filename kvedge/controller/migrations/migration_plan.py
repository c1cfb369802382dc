"""Decides what the controller does about one migration now: its phase, its Pod, its end.

Called by the migrations' loop. Pure. From the hand-over on the handlers have it: the controller follows what they write
into the VMI, and can only ask them to give up.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.controller.migrations.crossing_plan import (
    LOST_BY_WORD,
    explain_reception,
    is_declared_lost,
    may_free,
    place_of,
    plan_sending,
    reception_state,
)
from kvedge.controller.migrations.failure_ladder import CANCELED, find_failure, find_target_failure
from kvedge.controller.migrations.migration_queue import is_surplus, pause_seconds
from kvedge.controller.migrations.migration_status import with_migration_phase, with_true, with_wait
from kvedge.controller.migrations.migration_view import (
    ABORT_REQUESTED,
    ConfirmFree,
    CreateAttachments,
    CreateTarget,
    DeclareLost,
    DeleteEnded,
    DeleteMigration,
    DeleteTarget,
    DropState,
    FreeVm,
    HaltVm,
    HandOver,
    MigrationAction,
    MigrationPlan,
    MigrationView,
    PatchStatus,
    Release,
    RequestAbort,
    Told,
)
from kvedge.controller.migrations.readiness import WAITS, explain_wait, find_refusal, find_rests, is_ready_to_begin
from kvedge.controller.migrations.target_attachments import Attachments, find_ended, look_at_attachments
from kvedge.controller.migrations.target_wait import PREPARE_SECONDS, Wait, find_wait, patience_of, seconds_to_prepare
from kvedge.controller.vmi.interface_status import plan_networks
from kvedge.controller.vmi.launcher_pod_status import has_ended, has_ready_containers
from kvedge.controller.vmi.launcher_pods import has_moved, is_target, launcher_of
from kvedge.controller.vmi.resizing.guest_size import outgrows, size_of
from kvedge.resources.disks.moved_volumes import as_moved
from kvedge.resources.disks.state_claims import coming_claim_name, state_claim_of_run
from kvedge.resources.disks.volume_facts import claims, is_hotpluggable
from kvedge.resources.moves.crossing_rules import find_crossing_refusal
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import (
    MIGRATION_FINALIZER,
    MIGRATION_JOB_UID,
    MigrationPhase,
    MigrationState,
    VirtualMachineInstanceMigrationStatus,
)
from kvedge.resources.types.vmi import VirtualMachineInstance

FAILED: Final = "FailedMigration"
# KubeVirt's, of a VMI.
UNSUITED: Final = "NoSuitableNodesForHostModelMigration"
_LOOK_SECONDS: Final = 5.0
# A Pod of an earlier migration that is about to end.
_ENDING_SECONDS: Final = 1.0


def plan_migration(view: MigrationView, now: datetime) -> MigrationPlan:
    """Decide what to do."""
    migration, state, target = view.migration, view.state, target_of_migration(view)
    if migration.is_final:
        return _plan_final(view, target)
    if state is not None and view.vmi is not None and has_moved(view.vmi):
        told = Told("Normal", "SuccessfulMigration", "Source node reported migration succeeded")
        return _enter(view, "Succeeded", now, told)
    if state is not None and state.has_left_box:
        return _plan_left(view, now)
    failure = find_failure(view, target)
    if failure:
        return _plan_failure(view, target, failure, now)
    if state is not None:
        return _plan_handed_over(view, state, target, now)
    phase = migration.status.phase
    if phase == "":
        return _enter(view, "Pending", now)
    if phase == "Pending":
        return _plan_pending(view, target, now)
    if target is None:
        # Handed over to another box, and its write not seen yet.
        return MigrationPlan(again_after=_LOOK_SECONDS)
    if phase == "Scheduling":
        return _plan_scheduling(view, target, now)
    return _plan_scheduled(view, target, now)


def target_of_migration(view: MigrationView) -> Pod | None:
    """The Pod that was made for this migration."""
    uid = view.migration.job
    return next((pod for pod in view.pods if pod.metadata.labels.get(MIGRATION_JOB_UID) == uid), None)


def _plan_pending(view: MigrationView, target: Pod | None, now: datetime) -> MigrationPlan:
    if target is not None:
        return _enter(view, "Scheduling", now)
    vmi, migration = view.vmi, view.migration
    assert vmi is not None
    if migration.spec.receive is not None:
        return _plan_reception(view, now)
    refusal = _find_refusal(view) if vmi.status.phase == "Running" else None
    if refusal:
        return _plan_failure(view, None, refusal, now)
    if not is_ready_to_begin(view):
        # What it waits for is seen by itself.
        return _plan_wait(view, _ENDING_SECONDS if find_rests(vmi, view.pods) else None, now)
    if not view.has_turn:
        return _plan_wait(view, pause_seconds(migration), now)
    if migration.spec.send_to is not None:
        return plan_sending(view)
    return MigrationPlan((CreateTarget(),))


def _find_refusal(view: MigrationView) -> str | None:
    assert view.vmi is not None
    return find_refusal(view.vmi) if view.migration.spec.send_to is None else find_crossing_refusal(view.vmi)


def _plan_reception(view: MigrationView, now: datetime) -> MigrationPlan:
    """Make the Pod for a guest that comes from another box."""
    if waits := explain_reception(view):
        patches = _patch_status(view, with_wait(view.migration.status, waits, now))
        return MigrationPlan(patches, (Told("Normal", WAITS, waits),) if patches else (), _ENDING_SECONDS)
    if not view.has_turn:
        return _plan_wait(view, pause_seconds(view.migration), now)
    return MigrationPlan((CreateTarget(),))


def _plan_left(view: MigrationView, now: datetime) -> MigrationPlan:
    """The other box has taken the guest: nothing of it starts here any more, and then its run is over."""
    text = "The other box has taken the guest"
    done = _enter(view, "Succeeded", now, Told("Normal", "SuccessfulMigration", text))
    return MigrationPlan((HaltVm(place_of(view.migration)), *done.actions), done.told)


def _plan_wait(view: MigrationView, seconds: float | None, now: datetime) -> MigrationPlan:
    """Wait, and write down once for what."""
    told = explain_wait(view)
    status = with_wait(view.migration.status, "" if told is None else told.message, now)
    patches = _patch_status(view, status)
    return MigrationPlan(patches, (told,) if patches and told is not None else (), seconds)


def _plan_scheduling(view: MigrationView, target: Pod, now: datetime) -> MigrationPlan:
    if strange := _find_strange_version(view, target):
        return _plan_failure(view, target, strange, now)
    if has_ready_containers(target):
        found = _look_at_attachments(view, target, now)
        return _plan_attachments(view, target, found, now) or _enter(view, "Scheduled", now)
    wait = find_wait(target, view.migration.spec.vmi_name, now, patience_of(view.migration))
    if wait.failure:
        return _plan_failure(view, target, wait.failure, now)
    told = _warn(wait)
    if told and view.unsuited is not None:
        told = (Told("Warning", UNSUITED, view.unsuited, is_of_vmi=True), *told)
    return MigrationPlan(told=told, again_after=wait.seconds)


def _warn(wait: Wait) -> tuple[Told, ...]:
    return () if not wait.warning else (Told("Warning", "migrationTargetPodUnschedulable", wait.warning),)


def _look_at_attachments(view: MigrationView, target: Pod, now: datetime) -> Attachments:
    assert view.vmi is not None
    return look_at_attachments(view.vmi, target, view.attachments, view.claims, now, view.support)


def _plan_attachments(view: MigrationView, target: Pod, found: Attachments, now: datetime) -> MigrationPlan | None:
    """What is done for hotplugged volumes; None once all of the guest's are on the target's node."""
    if found.wait.failure:
        return _plan_failure(view, target, found.wait.failure, now)
    if found.missing:
        return MigrationPlan((CreateAttachments(found.missing),))
    if not found.waits:
        return None
    patches = _patch_status(view, with_wait(view.migration.status, found.waits, now))
    told = (Told("Normal", WAITS, found.waits),) if patches else ()
    return MigrationPlan(patches, (*_warn(found.wait), *told), found.wait.seconds)


def _plan_scheduled(view: MigrationView, target: Pod, now: datetime) -> MigrationPlan:
    vmi = view.vmi
    assert vmi is not None
    if strange := _find_strange_version(view, target):
        return _plan_failure(view, target, strange, now)
    if view.migration.spec.receive is not None:
        return MigrationPlan((HandOver(reception_state(view.migration, target), target),))
    source = launcher_of(vmi, view.pods)
    is_ending = vmi.metadata.deletion_timestamp is not None or vmi.status.phase != "Running"
    if is_ending or source is None or has_ended(source) or source.metadata.deletion_timestamp is not None:
        # The end of the VMI is about to be seen.
        return MigrationPlan(again_after=_LOOK_SECONDS)
    if changed := _find_change(vmi, target):
        return _plan_failure(view, target, changed, now)
    if target.spec.node_name == vmi.status.node_name:
        return _plan_failure(view, target, f"the target pod came to the guest's own node {vmi.status.node_name}", now)
    found = _look_at_attachments(view, target, now)
    if waiting := _plan_attachments(view, target, found, now):
        return waiting
    coming = _find_coming_state(vmi, target, view.migration.job)
    state = MigrationState(
        migration_uid=view.migration.job,
        source_node=vmi.status.node_name,
        target_node=target.spec.node_name,
        source_pod=source.metadata.name,
        target_pod=target.metadata.name,
        target_attachment_pods=dict(found.uids),
        target_attachment_pod_uid=next((uid for _, uid in sorted(found.uids.items())), ""),
        source_persistent_state_pvc_name=state_claim_of_run(vmi) if coming else "",
        target_persistent_state_pvc_name=coming,
    )
    return MigrationPlan((HandOver(state, target),))


def _find_change(vmi: VirtualMachineInstance, target: Pod) -> str:
    """What the guest has got since its target's Pod was made: it would miss it there."""
    if (claim := _find_other_claim(vmi, target)) is not None:
        return f"the claims of the VMI's volumes have changed while the target pod started: PVC {claim} is not there"
    if plan_networks(vmi, target) is not None:
        return "the VMI's networks have changed while the target pod started: migrate again"
    if outgrows(vmi, target):
        return f"the guest has grown while the target pod started, to {size_of(vmi)}: migrate again"
    return find_refusal(vmi) or ""


def _find_other_claim(vmi: VirtualMachineInstance, target: Pod) -> str | None:
    """A claim that the guest would have there, and the Pod has not."""
    there = _claims_of(target)
    wanted = (name for volume, name in claims(as_moved(vmi).spec.volumes) if not is_hotpluggable(volume))
    return next((name for name in wanted if name not in there), None)


def _find_coming_state(vmi: VirtualMachineInstance, target: Pod, job: str) -> str:
    """The claim of its own that the Pod has for the state of TPM and firmware; empty where it shares the guest's."""
    name = coming_claim_name(vmi.metadata.name, job)
    return name if name in _claims_of(target) else ""


def _claims_of(pod: Pod) -> set[str]:
    named = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return {source.claim_name for source in named if source is not None}


def _plan_handed_over(view: MigrationView, state: MigrationState, target: Pod | None, now: datetime) -> MigrationPlan:
    status = view.migration.status
    if is_declared_lost(view):
        return MigrationPlan((DeclareLost(),), (Told("Warning", FAILED, LOST_BY_WORD),))
    phase = _phase_of(state)
    if phase != status.phase:
        return _enter(view, phase, now)
    if state.abort_requested:
        return MigrationPlan()
    if view.migration.metadata.deletion_timestamp is not None:
        told = Told("Normal", "SuccessfulAbortMigration", "Migration is ready to be canceled by virt-handler.")
        aborted = with_true(status, ABORT_REQUESTED, now)
        return MigrationPlan((RequestAbort(), *_patch_status(view, aborted)), (told,))
    wait = seconds_to_prepare(status, now) if phase == "PreparingTarget" else None
    trouble = "" if state.target_state is not None else find_target_failure(view.migration, target)
    trouble = trouble or find_ended(state, view.attachments)
    if not trouble and wait is not None and wait <= 0:
        where = f"node {state.target_node}" if state.target_state is None else place_of(view.migration)
        trouble = f"{where}: nothing was ready for the guest within {PREPARE_SECONDS:.0f} s"
    if trouble:
        # Nobody but the source's handler can say that the guest stays.
        return MigrationPlan((RequestAbort(),), (Told("Warning", FAILED, trouble),))
    return MigrationPlan(again_after=wait)


def _phase_of(state: MigrationState) -> MigrationPhase:
    if state.start_timestamp is not None:
        return "Running"
    return "TargetReady" if state.target_node_address else "PreparingTarget"


def _plan_failure(view: MigrationView, target: Pod | None, failure: str, now: datetime) -> MigrationPlan:
    told = [Told("Warning", FAILED, failure)]
    status = view.migration.status
    ended = _end_target(view, target)
    if failure == CANCELED:
        status = with_true(status, ABORT_REQUESTED, now)
        if ended and target is not None:
            meta = target.metadata
            text = f"migration canceled and pod {meta.namespace}/{meta.name} is deleted"
            told.append(Told("Normal", "SuccessfulDelete", text))
    failed = with_migration_phase(status, "Failed", now, view.state)
    confirmed = (ConfirmFree(),) if view.state is None and view.vmi is not None else ()
    freed = (FreeVm(),) if view.migration.spec.send_to is not None and may_free(view) else ()
    # The reason comes first: of a Pod that is ended before, the next pass would only say that it has ended.
    return MigrationPlan((*confirmed, *freed, *_patch_status(view, failed), *ended), tuple(told))


def _plan_final(view: MigrationView, target: Pod | None) -> MigrationPlan:
    """What it leaves: a Pod that no guest comes to, itself when there are many, and its finalizer."""
    migration = view.migration
    is_going = migration.metadata.deletion_timestamp is not None
    ended: tuple[MigrationAction, ...] = _end_target(view, target) if migration.status.phase == "Failed" else ()
    released = (Release(),) if MIGRATION_FINALIZER in migration.metadata.finalizers else ()
    # Before the migration may go: nobody else knows which claim it has left.
    dropped = () if view.left_state is None else (DropState(view.left_state),)
    if is_going:
        return MigrationPlan((*ended, *dropped, *released))
    if view.vmi is None:
        return MigrationPlan((*dropped, *released, DeleteMigration()))
    if is_surplus(migration, view.others):
        return MigrationPlan((*ended, *dropped, *released, *_clean_pods(view, target), DeleteMigration()))
    return MigrationPlan((*ended, *dropped, *released))


def _clean_pods(view: MigrationView, target: Pod | None) -> tuple[DeleteEnded, ...]:
    """The Pods that were kept for their logs: where nothing came, or what a guest has left."""
    assert view.vmi is not None
    status = view.migration.status
    if status.phase == "Failed":
        left = target
    else:
        name = status.migration_state.source_pod if status.migration_state is not None else ""
        left = next((pod for pod in view.pods if pod.metadata.name == name), None)
    is_left = left is not None and has_ended(left) and left is not launcher_of(view.vmi, view.pods)
    return (DeleteEnded(left),) if left is not None and is_left else ()


def _end_target(view: MigrationView, target: Pod | None) -> tuple[DeleteTarget, ...]:
    """End the Pod of a migration that was never handed over; after that the VMI's plan does so."""
    if target is None or view.state is not None or not is_target(target):
        return ()
    is_launcher = view.vmi is not None and target is launcher_of(view.vmi, view.pods)
    if is_launcher or has_ended(target) or target.metadata.deletion_timestamp is not None:
        return ()
    return (DeleteTarget(target),)


def _find_strange_version(view: MigrationView, target: Pod) -> str:
    """Why a node is none to come to: what the handlers tell each other may differ between versions."""
    node = target.spec.node_name
    version = view.versions.get(node, view.version) if node else view.version
    if version == view.version:
        return ""
    said = f"has version {version}" if version else "tells no version"
    return (
        f"node {node}: its handler {said}, this controller {view.version}: guests move to nodes of the controller's"
        " version alone; upgrade the node"
    )


def _enter(view: MigrationView, phase: MigrationPhase, now: datetime, *told: Told) -> MigrationPlan:
    # What the VMI says of it is kept once it does not change any more.
    status = with_migration_phase(view.migration.status, phase, now, view.state if phase == "Succeeded" else None)
    return MigrationPlan(_patch_status(view, status), told)


def _patch_status(view: MigrationView, status: VirtualMachineInstanceMigrationStatus) -> tuple[PatchStatus, ...]:
    return () if status == view.migration.status else (PatchStatus(status),)
