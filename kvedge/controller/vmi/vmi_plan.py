"""Decides what the controller does about one VMI now: its launcher Pod, its phase up to Scheduled, its end.

Called by the VMI's loop. Pure: the VMI, the Pods that it owns (by UID) and the time go in, actions in their order come
out. From Scheduled on the handler of `status.nodeName` writes the VMI. The controller keeps the Ready condition, the
loss of the Pod, and the finalizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.kubevirt.condition_rules import with_condition
from kvedge.controller.node.node_plan import UNRESPONSIVE, NodeState
from kvedge.controller.vmi.claim_rules import ClaimView, ClaimWait, binding_trouble, claim_wait
from kvedge.controller.vmi.interface_status import changed_network_info, changed_networks
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod, pod_grace_seconds
from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import overhead_bytes
from kvedge.controller.vmi.launcher_pod_status import (
    SYNCHRONIZED,
    disruption,
    end_failure,
    has_ended,
    has_ready_containers,
    has_succeeded,
    may_still_run,
    start_failure,
)
from kvedge.controller.vmi.pending_networks import with_pending_networks
from kvedge.controller.vmi.vmi_status import (
    NODE_NOT_READY,
    POD_GONE,
    READY,
    Facts,
    after_hand_over,
    before_hand_over,
    with_phase,
    with_pod_gone,
)
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import LAUNCHER_SILENT, NODE_NAME, UNPAUSED_GATE, VM_FINALIZER, VMI_FINALIZER
from kvedge.resources.phases import Phase
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import NETWORKS, network_fields
from kvedge.resources.types.sriov_networks import NETWORK_INFO
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceStatus

# The controller writes a VMI in these phases.
_OURS: Final = frozenset({"", "Pending", "Scheduling"})
# A VMI's user gets an event for these reasons of its Ready condition.
_EVENT_REASONS: Final = frozenset({NODE_NOT_READY, POD_GONE})
# The handler has this long to report how a guest ended: after its Pod is gone, and after its Pod has ended.
LOST_SECONDS: Final = 5.0
ENDED_SECONDS: Final = 30.0
# A kubelet takes so long to end a Pod, beyond the grace period.
KUBELET_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Start the launcher; the loop does so only if the server still has the VMI as it was read."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PatchVmi:
    """Change the VMI; `body` is a merge patch for the version that was read."""

    body: JsonObject


@dataclass(frozen=True, slots=True)
class PatchPodStatus:
    """Set the Pod's readiness gate; `body` is a strategic merge patch."""

    pod: Pod
    body: JsonObject


@dataclass(frozen=True, slots=True)
class PatchPod:
    """Change the launcher's Pod itself; `body` is a merge patch for the version that was read."""

    pod: Pod
    body: JsonObject


@dataclass(frozen=True, slots=True)
class DeletePod:
    """End a launcher: it gets SIGTERM and the Pod's grace period."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class ConfirmPodLost:
    """Ask the server for the Pods of this VMI before the actions after it: a cache may be behind."""


VmiAction: TypeAlias = CreatePod | PatchVmi | PatchPod | PatchPodStatus | DeletePod | ConfirmPodLost


@dataclass(frozen=True, slots=True)
class VmiPlan:
    """Actions in order, what a user should be told, and in how many seconds to look again when nothing changes."""

    actions: tuple[VmiAction, ...] = ()
    warning: Condition | None = None
    again_after: float | None = None


@dataclass(frozen=True, slots=True)
class VmiView:
    """What the controller sees of one VMI."""

    vmi: VirtualMachineInstance
    # The Pods whose controller is this very VMI.
    pods: Sequence[Pod]
    # For how long no Pod of the VMI has been running, or about to run.
    podless_seconds: float = 0.0
    # Pods of VMIs that had the same name before.
    earlier_pods: Sequence[Pod] = ()
    # The node of the VMI, when it is known.
    node: NodeState | None = None
    # Whether a Pod reported the launcher's end before the Pod was gone. A Pod that somebody deletes by force makes no
    # such report, and its guest runs on.
    was_ended: bool = False
    claims: ClaimView = field(default_factory=ClaimView)


def plan_vmi(view: VmiView, config: ClusterConfig, now: datetime) -> VmiPlan:
    """Decide what to do."""
    vmi, pods = view.vmi, view.pods
    pod = launcher_of(pods)
    if vmi.is_final:
        return _plan_end(view, vmi.status, now)
    if vmi.status.phase not in _OURS and (pod is None or has_ended(pod)):
        return _plan_without_launcher(view, pod, now)
    if vmi.metadata.deletion_timestamp is not None:
        return _plan_deletion(view, now)
    if vmi.status.phase in ("", "Pending"):
        earlier = next((earlier for earlier in view.earlier_pods if not has_ended(earlier)), None)
        if pod is None and earlier is not None:
            return _plan_behind(vmi, earlier, config, now)
        return _plan_pending(view, pod, config, now)
    if vmi.status.phase == "Scheduling":
        return _plan_scheduling(view, config, now)
    return _plan_handed_over(view, now)


def plan_create_failure(vmi: VirtualMachineInstance, message: str, config: ClusterConfig, now: datetime) -> VmiPlan:
    """Record that the launcher Pod could not be created."""
    failure = Condition(type=SYNCHRONIZED, status="False", reason="FailedCreate", message=message)
    facts = Facts(overhead_bytes(vmi, config), failure=failure)
    status = before_hand_over(vmi, None, vmi.status.phase or "Pending", facts, now)
    return VmiPlan(_patches(vmi, status), failure)


def launcher_of(pods: Sequence[Pod]) -> Pod | None:
    """The Pod that counts: a living Pod before an ended one, and of several the oldest."""
    return min(pods, key=lambda pod: (_is_over(pod), pod.metadata.creation_timestamp or ""), default=None)


def _plan_behind(vmi: VirtualMachineInstance, earlier: Pod, config: ClusterConfig, now: datetime) -> VmiPlan:
    """Somebody took an earlier run's finalizer off by hand: its guest may still run on the same disks."""
    where = f" on node {earlier.spec.node_name}" if earlier.spec.node_name else ""
    message = f"waits for the end of pod {earlier.metadata.name}{where}, which an earlier run of this name left behind"
    return replace(plan_create_failure(vmi, message, config, now), again_after=1.0)


def _plan_pending(view: VmiView, pod: Pod | None, config: ClusterConfig, now: datetime) -> VmiPlan:
    vmi = view.vmi
    if pod is None:
        if VMI_FINALIZER not in vmi.metadata.finalizers:
            # Admission adds the finalizer. Without it a deleted VMI would leave its Pod to the garbage collector.
            finalizers = [*vmi.metadata.finalizers, VMI_FINALIZER]
            return VmiPlan((PatchVmi({"metadata": {"finalizers": finalizers}}),))
        wait = claim_wait(vmi, view.claims)
        if wait is not None:
            return _plan_wait(view, wait, config, now)
        return VmiPlan((CreatePod(launcher_pod(vmi, config, view.claims.found)),))
    facts = Facts(overhead_bytes(vmi, config), failure=start_failure(pod, network_fields(vmi)), claims=view.claims)
    return VmiPlan(_patches(vmi, before_hand_over(vmi, pod, "Scheduling", facts, now)))


def _plan_wait(view: VmiView, wait: ClaimWait, config: ClusterConfig, now: datetime) -> VmiPlan:
    """Wait for the VMI's claims: the launcher starts as soon as they are there."""
    vmi = view.vmi
    facts = Facts(overhead_bytes(vmi, config), failure=wait.failure, claims=view.claims, unscheduled=wait.unscheduled)
    status = before_hand_over(vmi, None, vmi.status.phase or "Pending", facts, now)
    return VmiPlan(_patches(vmi, status), wait.warning, wait.again_after)


def _plan_scheduling(view: VmiView, config: ClusterConfig, now: datetime) -> VmiPlan:
    vmi, pod = view.vmi, launcher_of(view.pods)
    facts = Facts(overhead_bytes(vmi, config), view.node, claims=view.claims)
    if pod is None:
        lost = before_hand_over(vmi, None, "Failed", replace(facts, reason=_end_reason(None)), now)
        return VmiPlan((ConfirmPodLost(), *_patches(vmi, lost)))
    if _is_over(pod):
        failure = end_failure(pod)
        status = before_hand_over(vmi, pod, "Failed", replace(facts, reason=_end_reason(pod), failure=failure), now)
        return VmiPlan(_patches(vmi, status), failure or _news(vmi, pod, status))
    if not has_ready_containers(pod):
        failure = start_failure(pod, network_fields(vmi)) or (
            None if pod.spec.node_name else binding_trouble(vmi, view.claims)
        )
        status = before_hand_over(vmi, pod, "Scheduling", replace(facts, failure=failure), now)
        return VmiPlan((*_tell_devices(vmi, pod), *_patches(vmi, status)), failure or _news(vmi, pod, status))
    status = before_hand_over(vmi, pod, "Scheduled", facts, now)
    status = msgspec.structs.replace(status, node_name=pod.spec.node_name, migration_transport="Unix")
    labels = {"metadata": {"labels": {NODE_NAME: pod.spec.node_name}}}
    told = _tell_devices(vmi, pod)
    return VmiPlan((*told, *_patches(vmi, status, labels), *(() if told else _set_gate(vmi, pod, now))))


def _plan_handed_over(view: VmiView, now: datetime) -> VmiPlan:
    vmi, pod = view.vmi, launcher_of(view.pods)
    assert pod is not None
    status = after_hand_over(vmi, pod, view.node, now, view.claims)
    conditions, again = with_pending_networks(vmi, status, now)
    status = msgspec.structs.replace(status, conditions=conditions)
    ended = (DeletePod(pod),) if _is_stuck(vmi) and pod.metadata.deletion_timestamp is None else ()
    others = _order_networks(vmi, pod) or _tell_devices(vmi, pod)
    return VmiPlan((*ended, *_patches(vmi, status), *_set_gate(vmi, pod, now), *others), _news(vmi, pod, status), again)


def _order_networks(vmi: VirtualMachineInstance, pod: Pod) -> tuple[PatchPod, ...]:
    """Order the Pod to join a network to which its guest comes, and to leave one whose NIC the guest has released."""
    wanted = None if vmi.status.phase != "Running" else changed_networks(vmi, pod)
    if wanted is None:
        return ()
    return (PatchPod(pod, {"metadata": {"annotations": {NETWORKS: wanted}}}),)


def _tell_devices(vmi: VirtualMachineInstance, pod: Pod) -> tuple[PatchPod, ...]:
    """Tell the launcher which functions of the node's cards its guest's networks are."""
    told = changed_network_info(vmi, pod)
    return () if told is None else (PatchPod(pod, {"metadata": {"annotations": {NETWORK_INFO: told}}}),)


def _is_stuck(vmi: VirtualMachineInstance) -> bool:
    """Whether the handler has given up on a launcher that runs and does not answer: the end of its Pod ends the run."""
    found = condition(vmi.status.conditions, SYNCHRONIZED)
    return found is not None and found.status == "False" and found.reason == LAUNCHER_SILENT


def _plan_without_launcher(view: VmiView, pod: Pod | None, now: datetime) -> VmiPlan:
    """End a run whose launcher is gone or has ended, once the handler has reported how the guest ended, or cannot.

    The launcher may still run: somebody deleted its Pod by force, or its kubelet refused the Pod after a restart. The
    kubelet then ends the launcher later, within the guest's grace period. Until that only this VMI keeps the next run
    from starting beside it. The handler sees the end, and a change of the VMI or of the Node ends the wait.
    """
    vmi, node = view.vmi, view.node
    may_run = not view.was_ended if pod is None else may_still_run(pod)
    patience = _patience(view, pod, may_run=may_run)
    if view.podless_seconds < patience or (may_run and _has_witness(node)):
        return _plan_waiting(view, pod, patience, now)
    phase: Phase = "Succeeded" if pod is not None and has_succeeded(pod) else "Failed"
    warning = None
    reason = "" if phase == "Succeeded" else _end_reason(pod)
    if phase == "Failed" and node is not None and node.unresponsive:
        reason = UNRESPONSIVE
        message = f"virt-handler on node {node.name} is not responsive, marking VMI as failed"
        warning = Condition(type=READY, status="False", reason=UNRESPONSIVE, message=message)
    status = with_phase(after_hand_over(vmi, pod, node, now), phase, reason, now)
    confirmed = () if pod is not None else (ConfirmPodLost(),)
    return VmiPlan((*confirmed, *_patches(vmi, status)), warning)


def _plan_waiting(view: VmiView, pod: Pod | None, patience: float, now: datetime) -> VmiPlan:
    """Wait until the handler reports how the guest ended, or for `patience` seconds."""
    vmi = view.vmi
    # The handler mostly reports within moments. Only after them the status says that the Pod is gone.
    quiet = min(patience, LOST_SECONDS) if pod is None else 0.0
    looks = [moment - view.podless_seconds for moment in (quiet, patience) if moment > view.podless_seconds]
    if view.podless_seconds < quiet:
        status = vmi.status
    elif pod is None:
        status = with_pod_gone(vmi, view.node, now)
    else:
        status = after_hand_over(vmi, pod, view.node, now)
    return VmiPlan(_patches(vmi, status), _news(vmi, pod, status), min(looks, default=None))


def _patience(view: VmiView, pod: Pod | None, *, may_run: bool) -> float:
    """For how many seconds the handler or the kubelet may still report how the guest ended."""
    node = view.node
    is_silent = node is not None and node.unresponsive
    if may_run and node is not None and is_silent and not node.trouble and not node.out_of_service:
        # The handler is silent, but the kubelet works: it ends the launcher in its time.
        return pod_grace_seconds(view.vmi) + KUBELET_SECONDS
    if pod is not None:
        return ENDED_SECONDS
    return 0.0 if is_silent else LOST_SECONDS


def _has_witness(node: NodeState | None) -> bool:
    """Whether the node's handler will report how the launcher ended: now, or once its lost node is back."""
    if node is None or node.out_of_service:
        return False
    return not node.unresponsive or bool(node.trouble)


def _plan_deletion(view: VmiView, now: datetime) -> VmiPlan:
    """Delete the Pod: its launcher gets SIGTERM, the handler shuts the guest down and reports how it ended."""
    vmi, pods = view.vmi, view.pods
    if pods:
        pod = launcher_of(pods)
        gone = tuple(DeletePod(item) for item in pods if item.metadata.deletion_timestamp is None)
        status = vmi.status if vmi.status.phase in _OURS else after_hand_over(vmi, pod, view.node, now)
        return VmiPlan((*gone, *_patches(vmi, status)), _news(vmi, pod, status))
    status = with_phase(after_hand_over(vmi, None, view.node, now), "Failed", "", now)
    return _plan_end(view, status, now)


def _plan_end(view: VmiView, status: VirtualMachineInstanceStatus, now: datetime) -> VmiPlan:
    """A run that is over: its Pod stays for its logs until the VMI is deleted, the VMI until its Pods are gone."""
    vmi, pods = view.vmi, view.pods
    if pods:
        is_going = vmi.metadata.deletion_timestamp is not None
        ended = tuple(DeletePod(pod) for pod in pods if is_going and pod.metadata.deletion_timestamp is None)
        is_lost = view.node is not None and bool(view.node.trouble)
        # The end of a VMI on a lost node may take long, and its status says why. Elsewhere it takes moments.
        status = vmi.status if is_going and not is_lost else after_hand_over(vmi, launcher_of(pods), view.node, now)
        return VmiPlan((*ended, *_patches(vmi, status)), _news(vmi, launcher_of(pods), status))
    if vmi.metadata.deletion_timestamp is None:
        return VmiPlan(_patches(vmi, after_hand_over(vmi, None, view.node, now)))
    kept = [name for name in vmi.metadata.finalizers if name != VMI_FINALIZER and not _is_stale(name, vmi)]
    metadata: JsonObject = {}
    if kept != vmi.metadata.finalizers:
        metadata = {"metadata": {"finalizers": kept}}
    patches = _patches(vmi, status, metadata)
    return VmiPlan((ConfirmPodLost(), *patches) if patches else ())


def _is_stale(finalizer: str, vmi: VirtualMachineInstance) -> bool:
    """The VM controller's finalizer on a VMI that no VM owns (any more) would never be removed."""
    return finalizer == VM_FINALIZER and vmi.metadata.controller_reference() is None


def _set_gate(vmi: VirtualMachineInstance, pod: Pod, now: datetime) -> tuple[PatchPodStatus, ...]:
    paused = condition(vmi.status.conditions, "Paused")
    is_paused = paused is not None and paused.status == "True"
    wanted = Condition(
        type=UNPAUSED_GATE,
        status="False" if is_paused else "True",
        reason="Paused" if is_paused else "NotPaused",
        message="the virtual machine is paused" if is_paused else "the virtual machine is not paused",
    )
    old = condition(pod.status.conditions, UNPAUSED_GATE)
    if pod.metadata.deletion_timestamp is not None or _is_over(pod):
        return ()
    if old is not None and (old.status, old.reason) == (wanted.status, wanted.reason):
        return ()
    made = condition(with_condition(pod.status.conditions, wanted, now), UNPAUSED_GATE)
    assert made is not None
    return (PatchPodStatus(pod, {"status": {"conditions": [encode(made)]}}),)


def _news(vmi: VirtualMachineInstance, pod: Pod | None, status: VirtualMachineInstanceStatus) -> Condition | None:
    """The change of the Ready condition that the user gets as an event: a lost node or Pod, a disruption."""
    old, new = condition(vmi.status.conditions, READY), condition(status.conditions, READY)
    if new is None or (old is not None and (old.reason, old.message) == (new.reason, new.message)):
        return None
    if new.reason in _EVENT_REASONS:
        return new
    by = None if pod is None else disruption(pod)
    if by is None:
        return None
    return msgspec.structs.replace(new, reason=by.reason or new.reason)


def _patches(
    vmi: VirtualMachineInstance, status: VirtualMachineInstanceStatus, more: JsonObject | None = None
) -> tuple[PatchVmi, ...]:
    changes = merge_difference(encode(vmi.status), encode(status))
    body = {**(more or {}), **({"status": changes} if changes else {})}
    return (PatchVmi(body),) if body else ()


def _is_over(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or has_ended(pod)


def _end_reason(pod: Pod | None) -> str:
    if pod is None:
        return "PodLost"
    return "PodTerminating" if pod.metadata.deletion_timestamp is not None else f"Pod{pod.status.phase}"
