"""Decides what becomes of a VMI that two launcher Pods know of, and of the Pod that is left when one has the guest.

Called by `vmi_plan` and `vmi_end_plan`. Pure, as they are. Whether a guest that has left one node runs on the other is
for the handler there to decide. Here the VMI is kept until then, and what that handler must know of the Pods is written
down.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi.launcher_pods import has_moved, is_moving, is_off, launcher_of, list_active, target_of
from kvedge.controller.vmi.vmi_status import READY, after_hand_over, with_phase
from kvedge.controller.vmi.vmi_view import ConfirmPodLost, DeletePod, VmiAction, VmiPlan, VmiView, patch_vmi
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition
from kvedge.resources.names import MIGRATION_TARGET_NODE
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceStatus
from kvedge.runtime.clock import rfc3339, seconds_since

GUEST_LOST: Final = "GuestLost"
# A launcher whose guest has left ends by itself within seconds.
LEFT_SECONDS: Final = 60.0
# The handler of the target has this long to report how the guest ended that had come there.
REPORT_SECONDS: Final = 30.0
_OVER_TEXT: Final = "the guest ended while it was to move"
_LOST_TEXT: Final = "the guest's launchers on both nodes have ended during its live migration"


def plan_moving(view: VmiView, now: datetime) -> VmiPlan:
    """The Pod that the guest leaves is gone or over, and nobody has said yet where the guest is.

    This neither ends the VMI nor starts another run: the guest may be on the other node. Once nothing can run in the
    Pod any more that is written down, which lets the target's handler go on.
    """
    vmi, pods = view.vmi, view.pods
    state = vmi.status.migration_state
    assert state is not None
    source, target = launcher_of(vmi, pods), target_of(vmi, pods)
    source_is_off = is_off(source, view.node, was_ended=view.was_ended)
    left = source_is_off or state.source_node_domain_gone_timestamp is not None
    # Of a Pod on another box nobody here knows.
    is_here = state.target_state is None
    if is_here and left and is_off(target, view.target_node, was_ended=view.was_target_ended):
        wait = REPORT_SECONDS - view.podless_seconds
        if wait <= 0:
            lost = msgspec.structs.replace(state, failed=True, completed=True, end_timestamp=rfc3339(now))
            return with_lost_guest(view, _with_state(view, lost, now), now)
    else:
        wait = None
    written = state
    if source_is_off and state.source_pod_gone_timestamp is None:
        written = msgspec.structs.replace(state, source_pod_gone_timestamp=rfc3339(now))
    patches = patch_vmi(vmi, _with_state(view, written, now))
    ended = end_pods(view) if vmi.metadata.deletion_timestamp is not None else ()
    confirmed = (ConfirmPodLost(view.known),) if source is None and written is not state else ()
    return VmiPlan((*ended, *confirmed, *patches), again_after=wait)


def is_lost(vmi: VirtualMachineInstance) -> bool:
    """Whether a migration has failed, and nothing of the guest is left where it came from."""
    state = vmi.status.migration_state
    return state is not None and state.failed and _source_is_gone(state)


def with_closed_migration(status: VirtualMachineInstanceStatus, now: datetime) -> VirtualMachineInstanceStatus:
    """The status of a run that is over: nothing moves any more."""
    state = status.migration_state
    if state is None or not state.is_open:
        return status
    closed = msgspec.structs.replace(
        state,
        failed=True,
        completed=True,
        end_timestamp=rfc3339(now),
        failure_reason=state.failure_reason or _OVER_TEXT,
    )
    return msgspec.structs.replace(status, migration_state=closed)


def with_lost_guest(view: VmiView, status: VirtualMachineInstanceStatus, now: datetime) -> VmiPlan:
    """The run has failed: the guest is on neither node."""
    vmi, state = view.vmi, status.migration_state
    assert state is not None
    text = state.failure_reason or _LOST_TEXT
    changed = msgspec.structs.replace(
        with_phase(status, "Failed", GUEST_LOST, now),
        migration_state=msgspec.structs.replace(state, failure_reason=text),
    )
    warning = Condition(type=READY, status="False", reason=GUEST_LOST, message=text)
    return VmiPlan((ConfirmPodLost(view.known), *patch_vmi(vmi, changed, _without_label(vmi))), warning)


def plan_left_pods(view: VmiView, now: datetime) -> tuple[tuple[VmiAction, ...], float | None]:
    """End the Pod that has no guest (any more) and does not end by itself; when to look again, in seconds.

    The launcher that a guest has left ends by itself; the one that waits for a guest that does not come, or for that of
    a VMI that is over, does not.
    """
    vmi, state = view.vmi, view.vmi.status.migration_state
    launcher = launcher_of(vmi, view.pods)
    others = [
        pod
        for pod in view.pods
        if pod is not launcher and not has_ended(pod) and pod.metadata.deletion_timestamp is None
    ]
    if vmi.is_final:
        return tuple(DeletePod(pod) for pod in others), None
    if state is None or state.is_open:
        return (), None
    ended: list[VmiAction] = []
    waits = []
    for pod in others:
        wait = _count_seconds_left(vmi, pod, now)
        if wait is not None and wait <= 0:
            ended.append(DeletePod(pod))
        elif wait is not None:
            waits.append(wait)
    return tuple(ended), min(waits, default=None)


def end_pods(view: VmiView) -> tuple[DeletePod, ...]:
    """End the Pods of a VMI that is deleted, but not the one that its guest may have come to, while it moves.

    The handler there lets the guest run first, so that it can be shut down, or ends what waits for it in vain.
    """
    spared = target_of(view.vmi, view.pods) if is_moving(view.vmi) else None
    left = [pod for pod in view.pods if pod.metadata.deletion_timestamp is None]
    return tuple(DeletePod(pod) for pod in left if pod is not spared)


def end_label(vmi: VirtualMachineInstance) -> JsonObject:
    """What takes away the label by which the target's handler finds the VMI, once its migration is over."""
    return {} if is_moving(vmi) else _without_label(vmi)


def _without_label(vmi: VirtualMachineInstance) -> JsonObject:
    if MIGRATION_TARGET_NODE not in vmi.metadata.labels:
        return {}
    return {"metadata": {"labels": {MIGRATION_TARGET_NODE: None}}}


def min_seconds(*waits: float | None) -> float | None:
    """The shortest of several waits."""
    return min((wait for wait in waits if wait is not None), default=None)


def _count_seconds_left(vmi: VirtualMachineInstance, pod: Pod, now: datetime) -> float | None:
    """For how long a Pod without the guest may still be there; None for one that belongs to another migration."""
    state = vmi.status.migration_state
    assert state is not None
    if not has_moved(vmi):
        # A source that is gone, without a failure: nobody knows what has become of what came.
        is_empty = state.failed or not _source_is_gone(state)
        return 0.0 if is_empty and pod.metadata.name == state.target_pod else None
    if pod.metadata.name != state.source_pod:
        return None
    passed = seconds_since(state.end_timestamp, now)
    return 0.0 if passed is None else LEFT_SECONDS - passed


def _source_is_gone(state: MigrationState) -> bool:
    return state.source_node_domain_gone_timestamp is not None or state.source_pod_gone_timestamp is not None


def _with_state(view: VmiView, state: MigrationState, now: datetime) -> VirtualMachineInstanceStatus:
    vmi = view.vmi
    status = after_hand_over(vmi, launcher_of(vmi, view.pods), view.node, now)
    return msgspec.structs.replace(status, migration_state=state, active_pods=list_active(vmi, view.pods))
