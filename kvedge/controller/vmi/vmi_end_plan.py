"""Decides how a VMI's run ends: a Pod that is gone or over, a deletion, a node that is lost.

Called by `vmi_plan`. Pure, as that is.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.controller.fencing.fence_loop import NODE_FENCED
from kvedge.controller.node.node_plan import UNRESPONSIVE, NodeState
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import pod_grace_seconds
from kvedge.controller.vmi.launcher_pod_status import has_succeeded, may_still_run
from kvedge.controller.vmi.launcher_pods import launcher_of
from kvedge.controller.vmi.vmi_move_plan import (
    end_label,
    end_pods,
    is_lost,
    plan_left_pods,
    with_closed_migration,
    with_lost_guest,
)
from kvedge.controller.vmi.vmi_status import READY, after_hand_over, note_pod_gone, with_phase
from kvedge.controller.vmi.vmi_view import (
    OUR_PHASES,
    ConfirmPodLost,
    DeletePod,
    VmiPlan,
    VmiView,
    find_news,
    name_end,
    patch_vmi,
)
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition
from kvedge.resources.names import VM_FINALIZER, VMI_FINALIZER
from kvedge.resources.phases import Phase
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceStatus

# The handler has this long to report how a guest ended: after its Pod is gone, and after its Pod has ended.
LOST_SECONDS: Final = 5.0
ENDED_SECONDS: Final = 30.0
# A kubelet takes so long to end a Pod, beyond the grace period.
KUBELET_SECONDS: Final = 30.0


def plan_without_launcher(view: VmiView, pod: Pod | None, now: datetime) -> VmiPlan:
    """End a run whose launcher is gone or has ended, once the handler has reported how the guest ended, or cannot.

    The launcher may still run: somebody deleted its Pod by force, or its kubelet refused the Pod after a restart. The
    kubelet then ends the launcher later, within the guest's grace period. Until that only this VMI keeps the next run
    from starting beside it. The handler sees the end, and a change of the VMI or of the Node ends the wait.
    """
    vmi, node = view.vmi, view.node
    if is_lost(vmi):
        return with_lost_guest(view, after_hand_over(vmi, pod, node, now), now)
    state = vmi.status.migration_state
    if state is not None and state.has_left_box:
        # The other box has said so, and nothing of it is left here.
        return VmiPlan(patch_vmi(vmi, with_phase(after_hand_over(vmi, pod, node, now), "Succeeded", "", now)))
    may_run = not view.was_ended if pod is None else may_still_run(pod)
    patience = _patience(view, pod, may_run=may_run)
    if view.podless_seconds < patience or (may_run and _has_witness(node)):
        return _plan_waiting(view, pod, patience, now)
    phase: Phase = "Succeeded" if pod is not None and has_succeeded(pod) else "Failed"
    warning = None
    reason = "" if phase == "Succeeded" else name_end(pod)
    if phase == "Failed" and node is not None and node.is_fenced:
        reason = NODE_FENCED
        message = f"node {node.name} was lost, and has ended the guest by itself: the VMI is marked as failed"
        warning = Condition(type=READY, status="False", reason=NODE_FENCED, message=message)
    elif phase == "Failed" and node is not None and node.unresponsive:
        reason = UNRESPONSIVE
        message = f"virt-handler on node {node.name} is not responsive, marking VMI as failed"
        warning = Condition(type=READY, status="False", reason=UNRESPONSIVE, message=message)
    status = with_phase(after_hand_over(vmi, pod, node, now), phase, reason, now)
    confirmed = () if pod is not None else (ConfirmPodLost(view.known),)
    return VmiPlan((*confirmed, *patch_vmi(vmi, status)), warning)


def _plan_waiting(view: VmiView, pod: Pod | None, patience: float, now: datetime) -> VmiPlan:
    """Wait until the handler reports how the guest ended, or for `patience` seconds."""
    vmi = view.vmi
    # The handler mostly reports within moments. Only after them the status says that the Pod is gone.
    quiet = min(patience, LOST_SECONDS) if pod is None else 0.0
    looks = [moment - view.podless_seconds for moment in (quiet, patience) if moment > view.podless_seconds]
    if view.podless_seconds < quiet:
        status = vmi.status
    elif pod is None:
        status = note_pod_gone(vmi, view.node, now)
    else:
        status = after_hand_over(vmi, pod, view.node, now)
    return VmiPlan(patch_vmi(vmi, status), find_news(vmi, pod, status), min(looks, default=None))


def _patience(view: VmiView, pod: Pod | None, *, may_run: bool) -> float:
    """For how many seconds the handler or the kubelet may still report how the guest ended."""
    node = view.node
    if node is not None and node.is_fenced:
        # It has ended the guest: nobody is left to report.
        return 0.0
    is_silent = node is not None and node.unresponsive
    if may_run and node is not None and is_silent and not node.trouble and not node.out_of_service:
        # The handler is silent, but the kubelet works: it ends the launcher in its time.
        return pod_grace_seconds(view.vmi) + KUBELET_SECONDS
    if pod is not None:
        return ENDED_SECONDS
    return 0.0 if is_silent else LOST_SECONDS


def _has_witness(node: NodeState | None) -> bool:
    """Whether the node's handler will report how the launcher ended: now, or once its lost node is back."""
    if node is None or node.is_given_up:
        return False
    return not node.unresponsive or bool(node.trouble)


def plan_deletion(view: VmiView, now: datetime) -> VmiPlan:
    """Delete the Pod: its launcher gets SIGTERM, the handler shuts the guest down and reports how it ended."""
    vmi, pods = view.vmi, view.pods
    if pods:
        pod = launcher_of(vmi, pods)
        gone = end_pods(view)
        status = vmi.status if vmi.status.phase in OUR_PHASES else after_hand_over(vmi, pod, view.node, now)
        return VmiPlan((*gone, *patch_vmi(vmi, status)), find_news(vmi, pod, status))
    status = with_phase(after_hand_over(vmi, None, view.node, now), "Failed", "", now)
    return plan_end(view, status, now)


def plan_end(view: VmiView, status: VirtualMachineInstanceStatus, now: datetime) -> VmiPlan:
    """A run that is over: its Pod stays for its logs until the VMI is deleted, the VMI until its Pods are gone."""
    vmi, pods = view.vmi, view.pods
    if pods:
        is_going = vmi.metadata.deletion_timestamp is not None
        ended = tuple(DeletePod(pod) for pod in pods if is_going and pod.metadata.deletion_timestamp is None)
        is_silent = view.node is not None and bool(view.node.trouble)
        # The end of a VMI on a lost node may take long, and its status says why. Elsewhere it takes moments.
        pod = launcher_of(vmi, pods)
        status = vmi.status if is_going and not is_silent else after_hand_over(vmi, pod, view.node, now)
        status = with_closed_migration(status, now)
        left = () if is_going else plan_left_pods(view, now)[0]
        return VmiPlan((*ended, *left, *patch_vmi(vmi, status, end_label(vmi))), find_news(vmi, pod, status))
    if vmi.metadata.deletion_timestamp is None:
        return VmiPlan(patch_vmi(vmi, after_hand_over(vmi, None, view.node, now)))
    kept = [name for name in vmi.metadata.finalizers if name != VMI_FINALIZER and not _is_stale(name, vmi)]
    metadata: JsonObject = {}
    if kept != vmi.metadata.finalizers:
        metadata = {"metadata": {"finalizers": kept}}
    patches = patch_vmi(vmi, status, metadata)
    return VmiPlan((ConfirmPodLost(), *patches) if patches else ())


def _is_stale(finalizer: str, vmi: VirtualMachineInstance) -> bool:
    """The VM controller's finalizer on a VMI that no VM owns (any more) would never be removed."""
    return finalizer == VM_FINALIZER and vmi.metadata.controller_reference() is None
