"""What has to be done about one VMI now: its launcher Pod, its phase up to Scheduled, its end.

Called by the VMI's loop. Pure: the VMI, the Pods that it owns (by UID) and the time go in, actions in their order come
out. From Scheduled on the handler of `status.nodeName` writes the VMI; what is left here is the Ready condition, the
loss of the Pod, and the finalizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from kvedge.controller.cluster_config import ClusterConfig
from kvedge.controller.condition_rules import with_condition
from kvedge.controller.launcher_pod_manifest import launcher_pod
from kvedge.controller.launcher_pod_resources import overhead_bytes
from kvedge.controller.vmi_status import (
    SYNCHRONIZED,
    Facts,
    after_hand_over,
    before_hand_over,
    has_ready_containers,
    image_failure,
    with_phase,
)
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.core import Pod
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import NODE_NAME, UNPAUSED_GATE, VM_FINALIZER, VMI_FINALIZER
from kvedge.resources.phases import Phase
from kvedge.resources.vmi import VirtualMachineInstance, VirtualMachineInstanceStatus

_FINAL_POD_PHASES: Final = frozenset({"Succeeded", "Failed"})
_OURS: Final = frozenset({"", "Pending", "Scheduling"})
# The handler has this long to say how a guest ended whose Pod is gone, or has ended and can still be asked.
LOST_SECONDS: Final = 5.0
ENDED_SECONDS: Final = 30.0


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
class DeletePod:
    """End a launcher: it gets SIGTERM and the Pod's grace period."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class ConfirmPodLost:
    """Ask the server for the Pods of this VMI before the actions after it: a cache may be behind."""


VmiAction: TypeAlias = CreatePod | PatchVmi | PatchPodStatus | DeletePod | ConfirmPodLost


@dataclass(frozen=True, slots=True)
class VmiPlan:
    """Actions in order, what a user should be told, and in how many seconds to look again when nothing changes."""

    actions: tuple[VmiAction, ...] = ()
    warning: Condition | None = None
    again_after: float | None = None


@dataclass(frozen=True, slots=True)
class VmiView:
    """A VMI, the Pods whose controller is this very VMI, for how many seconds none of them has been running or about
    to, and Pods of VMIs that had the same name before."""

    vmi: VirtualMachineInstance
    pods: Sequence[Pod]
    podless_seconds: float = 0.0
    earlier_pods: Sequence[Pod] = ()


def plan_vmi(view: VmiView, config: ClusterConfig, now: datetime) -> VmiPlan:
    """What to do."""
    vmi, pods = view.vmi, view.pods
    pod = launcher_of(pods)
    if vmi.is_final:
        return _plan_end(vmi, pods, vmi.status, now)
    if vmi.status.phase not in _OURS and (pod is None or has_ended(pod)):
        return _plan_without_launcher(view, pod, now)
    if vmi.metadata.deletion_timestamp is not None:
        return _plan_deletion(vmi, pods, now)
    if vmi.status.phase in ("", "Pending"):
        if pod is None and not all(has_ended(earlier) for earlier in view.earlier_pods):
            # Somebody took an earlier run's finalizer off by hand: its guest may still run on the same disks.
            return VmiPlan(again_after=1.0)
        return _plan_pending(vmi, pod, config, now)
    if vmi.status.phase == "Scheduling":
        return _plan_scheduling(vmi, pod, config, now)
    return _plan_handed_over(vmi, pod, now)


def plan_create_failure(vmi: VirtualMachineInstance, message: str, config: ClusterConfig, now: datetime) -> VmiPlan:
    """What to record when the launcher Pod could not be created."""
    failure = Condition(type=SYNCHRONIZED, status="False", reason="FailedCreate", message=message)
    facts = Facts(overhead_bytes(vmi, config), failure=failure)
    status = before_hand_over(vmi, None, vmi.status.phase or "Pending", facts, now)
    return VmiPlan(_patches(vmi, status), failure)


def has_ended(pod: Pod) -> bool:
    """Whether nothing of the Pod runs any more."""
    return pod.status.phase in _FINAL_POD_PHASES


def launcher_of(pods: Sequence[Pod]) -> Pod | None:
    """The Pod that counts: one that lives before one that is over, else the oldest."""
    return min(pods, key=lambda pod: (_is_over(pod), pod.metadata.creation_timestamp or ""), default=None)


def _plan_pending(vmi: VirtualMachineInstance, pod: Pod | None, config: ClusterConfig, now: datetime) -> VmiPlan:
    if pod is None:
        if VMI_FINALIZER not in vmi.metadata.finalizers:
            # Admission puts it on; without it a deleted VMI would leave its Pod to the garbage collector.
            finalizers = [*vmi.metadata.finalizers, VMI_FINALIZER]
            return VmiPlan((PatchVmi({"metadata": {"finalizers": finalizers}}),))
        return VmiPlan((CreatePod(launcher_pod(vmi, config)),))
    facts = Facts(overhead_bytes(vmi, config), failure=image_failure(pod))
    return VmiPlan(_patches(vmi, before_hand_over(vmi, pod, "Scheduling", facts, now)))


def _plan_scheduling(vmi: VirtualMachineInstance, pod: Pod | None, config: ClusterConfig, now: datetime) -> VmiPlan:
    overhead = overhead_bytes(vmi, config)
    if pod is None or _is_over(pod):
        facts = Facts(overhead, reason=_why_over(pod))
        failed = _patches(vmi, before_hand_over(vmi, pod, "Failed", facts, now))
        return VmiPlan(failed if pod is not None else (ConfirmPodLost(), *failed))
    if not has_ready_containers(pod):
        failure = image_failure(pod)
        facts = Facts(overhead, failure=failure)
        return VmiPlan(_patches(vmi, before_hand_over(vmi, pod, "Scheduling", facts, now)), failure)
    status = before_hand_over(vmi, pod, "Scheduled", Facts(overhead), now)
    status = msgspec.structs.replace(status, node_name=pod.spec.node_name, migration_transport="Unix")
    labels = {"metadata": {"labels": {NODE_NAME: pod.spec.node_name}}}
    return VmiPlan((*_patches(vmi, status, labels), *_gate(vmi, pod, now)))


def _plan_handed_over(vmi: VirtualMachineInstance, pod: Pod | None, now: datetime) -> VmiPlan:
    assert pod is not None
    return VmiPlan((*_patches(vmi, after_hand_over(vmi, pod, now)), *_gate(vmi, pod, now)))


def _plan_without_launcher(view: VmiView, pod: Pod | None, now: datetime) -> VmiPlan:
    """The launcher is gone or has ended: the handler knows how the guest ended, unless it is gone as well."""
    patience = LOST_SECONDS if pod is None else ENDED_SECONDS
    if view.podless_seconds < patience:
        return VmiPlan(again_after=patience - view.podless_seconds)
    vmi = view.vmi
    # A launcher exits with 0 only when its guest has shut down.
    phase: Phase = "Succeeded" if pod is not None and pod.status.phase == "Succeeded" else "Failed"
    reason = "" if phase == "Succeeded" else _why_over(pod)
    status = with_phase(after_hand_over(vmi, pod, now), phase, reason, now)
    confirmed = () if pod is not None else (ConfirmPodLost(),)
    return VmiPlan((*confirmed, *_patches(vmi, status)))


def _plan_deletion(vmi: VirtualMachineInstance, pods: Sequence[Pod], now: datetime) -> VmiPlan:
    """The Pod goes, its launcher gets SIGTERM, the handler shuts the guest down and has the word on how it ended."""
    if pods:
        gone = tuple(DeletePod(pod) for pod in pods if pod.metadata.deletion_timestamp is None)
        handed_over = vmi.status.phase not in _OURS
        ready = _patches(vmi, after_hand_over(vmi, launcher_of(pods), now)) if handed_over else ()
        return VmiPlan((*gone, *ready))
    status = with_phase(after_hand_over(vmi, None, now), "Failed", "", now)
    return _plan_end(vmi, pods, status, now)


def _plan_end(
    vmi: VirtualMachineInstance, pods: Sequence[Pod], status: VirtualMachineInstanceStatus, now: datetime
) -> VmiPlan:
    """A run that is over: its Pod stays for its logs until the VMI is deleted, the VMI until its Pods are gone."""
    if vmi.metadata.deletion_timestamp is None:
        ready = after_hand_over(vmi, launcher_of(pods), now) if pods else vmi.status
        return VmiPlan(_patches(vmi, ready))
    if pods:
        return VmiPlan(tuple(DeletePod(pod) for pod in pods if pod.metadata.deletion_timestamp is None))
    kept = [name for name in vmi.metadata.finalizers if name != VMI_FINALIZER and not _is_stale(name, vmi)]
    metadata: JsonObject = {}
    if kept != vmi.metadata.finalizers:
        metadata = {"metadata": {"finalizers": kept}}
    patches = _patches(vmi, status, metadata)
    return VmiPlan((ConfirmPodLost(), *patches) if patches else ())


def _is_stale(finalizer: str, vmi: VirtualMachineInstance) -> bool:
    """The VM controller's finalizer on a VMI that no VM owns (any more) would never be removed."""
    return finalizer == VM_FINALIZER and vmi.metadata.controller_reference() is None


def _gate(vmi: VirtualMachineInstance, pod: Pod, now: datetime) -> tuple[PatchPodStatus, ...]:
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


def _patches(
    vmi: VirtualMachineInstance, status: VirtualMachineInstanceStatus, more: JsonObject | None = None
) -> tuple[PatchVmi, ...]:
    changes = merge_difference(encode(vmi.status), encode(status))
    body = {**(more or {}), **({"status": changes} if changes else {})}
    return (PatchVmi(body),) if body else ()


def _is_over(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or has_ended(pod)


def _why_over(pod: Pod | None) -> str:
    if pod is None:
        return "PodLost"
    return "PodTerminating" if pod.metadata.deletion_timestamp is not None else f"Pod{pod.status.phase}"
