"""Decides what the controller does about one VMI now: its launcher Pod, its phase up to Scheduled, its end.

Called by the VMI's loop. Pure: the VMI, the Pods that it owns (by UID) and the time go in, actions in their order come
out. From Scheduled on the handler of `status.nodeName` writes the VMI. The controller keeps the Ready condition, the
loss of the Pod, and the finalizer. How a run ends is decided in `vmi_end_plan`.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec.structs import replace

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.kubevirt.condition_rules import with_condition
from kvedge.controller.vmi.awaited_plan import plan_awaited
from kvedge.controller.vmi.claim_rules import ClaimWait, binding_wait, claim_wait, lacks_state_claim
from kvedge.controller.vmi.eviction_marks import plan_annotation
from kvedge.controller.vmi.interface_status import plan_network_info, plan_networks
from kvedge.controller.vmi.launcher_pod.backup_hooks import plan_hooks
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import overhead_bytes
from kvedge.controller.vmi.launcher_pod_status import (
    SYNCHRONIZED,
    end_failure,
    has_ended,
    has_ready_containers,
    start_failure,
)
from kvedge.controller.vmi.launcher_pods import awaits_guest, is_moving, is_over, launcher_of, list_active, target_of
from kvedge.controller.vmi.pending_networks import with_pending_networks
from kvedge.controller.vmi.resizing.resize_plan import next_look, plan_resize, plan_room
from kvedge.controller.vmi.switched_networks import look_elsewhere, mark_switched
from kvedge.controller.vmi.vmi_end_plan import plan_deletion, plan_end, plan_without_launcher
from kvedge.controller.vmi.vmi_move_plan import end_label, min_seconds, plan_left_pods, plan_moving
from kvedge.controller.vmi.vmi_status import Facts, after_hand_over, before_hand_over
from kvedge.controller.vmi.vmi_view import (
    OUR_PHASES,
    ConfirmPodLost,
    CreateClaim,
    CreatePod,
    DeletePod,
    ForgetPod,
    PatchPod,
    PatchPodStatus,
    PatchVmi,
    VmiPlan,
    VmiView,
    find_news,
    name_end,
    patch_vmi,
)
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.state_claims import STATE_CLAIM, make_state_claim, moved_claim_of
from kvedge.resources.meta import Condition, condition
from kvedge.resources.moves.crossing import is_awaited
from kvedge.resources.names import LAUNCHER_SILENT, NODE_NAME, UNPAUSED_GATE, VMI_FINALIZER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import NETWORKS, network_fields
from kvedge.resources.types.sriov_networks import NETWORK_INFO
from kvedge.resources.types.vmi import TopologyHints, VirtualMachineInstance


def plan_vmi(view: VmiView, config: ClusterConfig, now: datetime) -> VmiPlan:
    """Decide what to do."""
    vmi, pods = view.vmi, view.pods
    forgotten = tuple(ForgetPod(pod) for pod in pods if pod.spec.node_name in view.fenced_nodes)
    if forgotten:
        # What becomes of the VMI is decided without them.
        return VmiPlan(forgotten)
    pod = launcher_of(vmi, pods)
    if vmi.is_final:
        return plan_end(view, vmi.status, now)
    if is_awaited(vmi):
        return plan_awaited(view, config, now)
    if vmi.status.phase not in OUR_PHASES and (pod is None or has_ended(pod)):
        state = vmi.status.migration_state
        left = state is not None and state.may_have_left(vmi.status.node_name)
        return plan_moving(view, now) if left else plan_without_launcher(view, pod, now)
    if vmi.metadata.deletion_timestamp is not None:
        return plan_deletion(view, now)
    if vmi.status.phase in ("", "Pending"):
        earlier = next((earlier for earlier in view.earlier_pods if not has_ended(earlier)), None)
        if pod is None and earlier is not None:
            return _plan_behind(vmi, earlier, config, now)
        return _plan_pending(view, pod, config, now)
    if vmi.status.phase == "Scheduling":
        return _plan_scheduling(view, config, now)
    return _plan_handed_over(view, config, now)


def plan_create_failure(vmi: VirtualMachineInstance, message: str, config: ClusterConfig, now: datetime) -> VmiPlan:
    """Record that the launcher Pod could not be created."""
    failure = Condition(type=SYNCHRONIZED, status="False", reason="FailedCreate", message=message)
    facts = Facts(overhead_bytes(vmi, config), failure=failure)
    status = before_hand_over(vmi, None, vmi.status.phase or "Pending", facts, now)
    return VmiPlan(patch_vmi(vmi, status), failure)


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
        if lacks_state_claim(vmi, view.claims):
            return VmiPlan((CreateClaim(make_state_claim(vmi, config.state_storage_class)),))
        wait = claim_wait(vmi, view.claims)
        if wait is not None:
            return _plan_wait(view, wait, config, now)
        return VmiPlan((CreatePod(launcher_pod(vmi, config, view.claims.found)),))
    facts = Facts(overhead_bytes(vmi, config), failure=start_failure(pod, network_fields(vmi)), claims=view.claims)
    return VmiPlan(patch_vmi(vmi, before_hand_over(vmi, pod, "Scheduling", facts, now)))


def _plan_wait(view: VmiView, wait: ClaimWait, config: ClusterConfig, now: datetime) -> VmiPlan:
    """Wait for the VMI's claims: the launcher starts as soon as they are there."""
    vmi = view.vmi
    facts = Facts(overhead_bytes(vmi, config), failure=wait.failure, claims=view.claims, unscheduled=wait.unscheduled)
    status = before_hand_over(vmi, None, vmi.status.phase or "Pending", facts, now)
    return VmiPlan(patch_vmi(vmi, status), wait.warning, wait.again_after)


def _plan_scheduling(view: VmiView, config: ClusterConfig, now: datetime) -> VmiPlan:
    vmi, pod = view.vmi, launcher_of(view.vmi, view.pods)
    facts = Facts(overhead_bytes(vmi, config), view.node, claims=view.claims)
    if pod is None:
        lost = before_hand_over(vmi, None, "Failed", replace(facts, reason=name_end(None)), now)
        return VmiPlan((ConfirmPodLost(view.known), *patch_vmi(vmi, lost)))
    if is_over(pod):
        failure = end_failure(pod)
        status = before_hand_over(vmi, pod, "Failed", replace(facts, reason=name_end(pod), failure=failure), now)
        return VmiPlan(patch_vmi(vmi, status), failure or find_news(vmi, pod, status))
    if not has_ready_containers(pod):
        failure = warning = start_failure(pod, network_fields(vmi))
        wait = binding_wait(vmi, view.claims) if failure is None and not pod.spec.node_name else None
        if wait is not None:
            failure, warning = wait.failure, wait.warning
        status = before_hand_over(vmi, pod, "Scheduling", replace(facts, failure=failure), now)
        news = warning or find_news(vmi, pod, status)
        return VmiPlan((*_tell_devices(vmi, config, pod), *patch_vmi(vmi, status)), news)
    status = before_hand_over(vmi, pod, "Scheduled", facts, now)
    status = msgspec.structs.replace(
        status, node_name=pod.spec.node_name, migration_transport="Unix", vsock_cid=view.vsock_cid
    )
    if view.tsc_frequency is not None:
        status = msgspec.structs.replace(status, topology_hints=TopologyHints(tsc_frequency=view.tsc_frequency))
    labels = {"metadata": {"labels": {NODE_NAME: pod.spec.node_name}}}
    told = _tell_devices(vmi, config, pod)
    return VmiPlan((*told, *patch_vmi(vmi, status, labels), *(() if told else _set_gate(vmi, pod, now))))


def _plan_handed_over(view: VmiView, config: ClusterConfig, now: datetime) -> VmiPlan:
    vmi, pod = view.vmi, launcher_of(view.vmi, view.pods)
    assert pod is not None
    status = after_hand_over(vmi, pod, view.node, now, view.claims)
    elsewhere = look_elsewhere(vmi, pod)
    conditions, again = with_pending_networks(vmi, status, now, elsewhere)
    active = list_active(vmi, view.pods)
    # A Pod that waits for the guest was made for the guest of now: it grows once it is there, or stays.
    awaited = awaits_guest(vmi, view.pods)
    room = vmi.status.pod_room if awaited else plan_room(vmi, pod, config, now, keeps_limits=view.keeps_limits)
    status = msgspec.structs.replace(status, conditions=conditions, active_pods=active, pod_room=room)
    ended = (DeletePod(pod),) if _is_stuck(vmi) and pod.metadata.deletion_timestamp is None else ()
    left, later = plan_left_pods(view, now)
    # The guest gives its functions back before it moves: the Pod that it comes to has others.
    target = target_of(vmi, view.pods) if is_moving(vmi) else None
    others = (
        _order_networks(vmi, pod)
        or _tell_devices(vmi, config, pod, target)
        or _tell_eviction(vmi, pod)
        or _tell_backups(vmi, pod, config)
    )
    # Before the Pod is ordered: a NIC that is back where its guest hears of it was elsewhere.
    marks = {**mark_switched(vmi, elsewhere).get("annotations", {}), **_name_state_claim(vmi)}
    meta = {**end_label(vmi).get("metadata", {}), **({"annotations": marks} if marks else {})}
    written = patch_vmi(vmi, status, {"metadata": meta} if meta else {})
    # Last, as a refusal ends the pass: what was said of one before is on the VMI by then.
    resized = () if awaited else plan_resize(vmi, pod, config, keeps_limits=view.keeps_limits)
    actions = (*ended, *left, *written, *_set_gate(vmi, pod, now), *others, *resized)
    return VmiPlan(actions, find_news(vmi, pod, status), min_seconds(again, later, next_look(room)))


def _name_state_claim(vmi: VirtualMachineInstance) -> JsonObject:
    """The annotation that names the claim to which a migration has brought the state of TPM and firmware."""
    claim = moved_claim_of(vmi.metadata, vmi)
    return {STATE_CLAIM: claim} if claim else {}


def _order_networks(vmi: VirtualMachineInstance, pod: Pod) -> tuple[PatchPod, ...]:
    """Order the Pod to join a network to which its guest comes, and to leave one that it has left."""
    wanted = None if vmi.status.phase != "Running" else plan_networks(vmi, pod)
    if wanted is None:
        return ()
    return (PatchPod(pod, {"metadata": {"annotations": {NETWORKS: wanted}}}),)


def _tell_devices(vmi: VirtualMachineInstance, config: ClusterConfig, *pods: Pod | None) -> tuple[PatchPod, ...]:
    """Tell launchers, and sidecars of binding plugins, which devices of their nodes the guest's networks are."""
    informed = {name for name, plugin in config.bindings.items() if plugin.tells_devices}
    found = ((pod, plan_network_info(vmi, pod, informed)) for pod in pods if pod is not None)
    return tuple(
        PatchPod(pod, {"metadata": {"annotations": {NETWORK_INFO: told}}}) for pod, told in found if told is not None
    )


def _tell_eviction(vmi: VirtualMachineInstance, pod: Pod) -> tuple[PatchPod, ...]:
    """Tell those who evict that the guest is about to leave the Pod."""
    told = None if is_over(pod) else plan_annotation(vmi, pod)
    return () if told is None else (PatchPod(pod, told),)


def _tell_backups(vmi: VirtualMachineInstance, pod: Pod, config: ClusterConfig) -> tuple[PatchPod, ...]:
    """Tell backups of the Pod whether they freeze the guest, as that is said by now."""
    told = None if is_over(pod) else plan_hooks(vmi, pod, config.version, skips=config.skips_backup_hooks)
    return () if told is None else (PatchPod(pod, told),)


def _is_stuck(vmi: VirtualMachineInstance) -> bool:
    """Whether the handler has given up on a launcher that runs and does not answer: the end of its Pod ends the run."""
    found = condition(vmi.status.conditions, SYNCHRONIZED)
    return found is not None and found.status == "False" and found.reason == LAUNCHER_SILENT


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
    if pod.metadata.deletion_timestamp is not None or is_over(pod):
        return ()
    if old is not None and (old.status, old.reason) == (wanted.status, wanted.reason):
        return ()
    made = condition(with_condition(pod.status.conditions, wanted, now), UNPAUSED_GATE)
    assert made is not None
    return (PatchPodStatus(pod, {"status": {"conditions": [encode(made)]}}),)
