"""The part of a VMI's status that the controller writes.

Called by the VMI's plan. Pure. All of it until the phase is Scheduled; from then on the handler writes, and the
controller keeps to the conditions that it alone can know from the Pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct, field

from kvedge.controller.kubevirt.condition_rules import with_condition, without_conditions
from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vm.vm_status import guest_not_running
from kvedge.controller.vmi.claim_rules import REASONS, ClaimView
from kvedge.controller.vmi.data_volumes_ready import DATA_VOLUMES_READY, data_volumes_ready
from kvedge.controller.vmi.eviction_marks import with_eviction
from kvedge.controller.vmi.interface_status import with_joined_networks
from kvedge.controller.vmi.lans.lan_scheduling import POD_SCHEDULED, scheduled_with_networks
from kvedge.controller.vmi.launcher_pod_status import START_REASONS, SYNCHRONIZED, compute_image, disruption, has_ended
from kvedge.controller.vmi.volume_status import with_claims
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import LAUNCHER_UID
from kvedge.resources.phases import Phase, check_transition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import (
    MemoryStatus,
    PhaseTransition,
    VirtualMachineInstance,
    VirtualMachineInstanceStatus,
)
from kvedge.resources.values.quantities import format_bytes
from kvedge.runtime.clock import rfc3339

READY: Final = "Ready"
NODE_NOT_READY: Final = "NodeNotReady"
POD_GONE: Final = "PodGone"
_UNTIL: Final = (
    "nothing is started elsewhere before the node is back, its Node is deleted, or it has the taint"
    " node.kubernetes.io/out-of-service"
)


class Facts(Struct, frozen=True):
    """What else goes into the status: memory overhead in bytes, the node, why the phase is what it is, what failed,
    the claims that the VMI uses, and why the Pod is not scheduled when there is none that could say it.
    """

    overhead: int
    node: NodeState | None = None
    reason: str = ""
    failure: Condition | None = None
    claims: ClaimView = field(default_factory=ClaimView)
    unscheduled: Condition | None = None


def before_hand_over(
    vmi: VirtualMachineInstance, pod: Pod | None, phase: Phase, facts: Facts, now: datetime
) -> VirtualMachineInstanceStatus:
    """The status while the VMI is the controller's, with `phase` entered when it is another than before.

    Raises:
        PhaseError: when the phase may not follow the present one.
    """
    status = with_phase(vmi.status, phase, facts.reason, now)
    memory = status.memory or MemoryStatus()
    changed = msgspec.structs.replace(
        status,
        runtime_user=LAUNCHER_UID,
        memory=msgspec.structs.replace(memory, memory_overhead=format_bytes(facts.overhead)),
        conditions=_conditions(vmi, pod, phase, facts, now),
        volume_status=with_claims(vmi, facts.claims) if facts.claims.found else status.volume_status,
    )
    if pod is None or phase == vmi.status.phase:
        # Other news of the Pod, such as its node, is written with the next phase, which saves a write.
        return changed
    return msgspec.structs.replace(
        changed,
        active_pods={**status.active_pods, pod.metadata.uid: pod.spec.node_name},
        qos_class=pod.status.qos_class or status.qos_class,
        launcher_container_image_version=compute_image(pod),
        interfaces=with_joined_networks(vmi, pod),
    )


def after_hand_over(
    vmi: VirtualMachineInstance,
    pod: Pod | None,
    node: NodeState | None,
    now: datetime,
    claims: ClaimView | None = None,
) -> VirtualMachineInstanceStatus:
    """The handler's status with our Ready condition, and the claims and the Pod's networks as they are now."""
    conditions = with_condition(vmi.status.conditions, _ready(vmi.status.phase, pod, node), now)
    conditions = with_eviction(conditions, vmi, now)
    # Without claims nobody has looked: what was said of them stays.
    seen = claims if claims is not None and claims.found else None
    conditions = conditions if seen is None else _with_data_volumes(conditions, vmi, seen.found, now)
    return msgspec.structs.replace(
        vmi.status,
        conditions=without_conditions(conditions, {POD_SCHEDULED}),
        volume_status=vmi.status.volume_status if seen is None else with_claims(vmi, seen),
        interfaces=with_joined_networks(vmi, pod),
    )


def note_pod_gone(vmi: VirtualMachineInstance, node: NodeState | None, now: datetime) -> VirtualMachineInstanceStatus:
    """The handler's status while nobody has said that the guest ended whose Pod is no longer in the API."""
    text = "virt-launcher pod is gone, but nobody has said that the guest has ended"
    reason = POD_GONE
    if node is not None and node.trouble:
        reason = NODE_NOT_READY
        text = f"{text}, and node {node.name} is not ready: {node.trouble} ({node.waits_for or _UNTIL})"
    elif node is not None and node.unresponsive:
        text = f"{text}, nor does virt-handler on node {node.name} answer: the pod's grace period is waited for"
    elif node is not None:
        text = f"{text}: virt-handler on node {node.name} is waited for"
    conditions = with_condition(vmi.status.conditions, _not_ready(reason, text), now)
    return msgspec.structs.replace(vmi.status, conditions=without_conditions(conditions, {POD_SCHEDULED}))


def with_phase(
    status: VirtualMachineInstanceStatus, phase: Phase, reason: str, now: datetime
) -> VirtualMachineInstanceStatus:
    """The status with another phase, and the time at which it was entered.

    Raises:
        PhaseError: when the phase may not follow the present one.
    """
    if check_transition(status.phase, phase) == status.phase:
        return status
    entry = PhaseTransition(phase=phase, phase_transition_timestamp=rfc3339(now))
    return msgspec.structs.replace(
        status,
        phase=phase,
        reason=reason,
        phase_transition_timestamps=[*status.phase_transition_timestamps, entry],
    )


def _conditions(
    vmi: VirtualMachineInstance, pod: Pod | None, phase: Phase, facts: Facts, now: datetime
) -> list[Condition]:
    conditions = with_condition(vmi.status.conditions, _ready(phase, pod, facts.node), now)
    conditions = _with_data_volumes(conditions, vmi, facts.claims.found, now)
    scheduled = facts.unscheduled if pod is None else scheduled_with_networks(pod)
    if scheduled is not None and scheduled.status == "False":
        conditions = with_condition(conditions, scheduled, now)
    else:
        conditions = without_conditions(conditions, {POD_SCHEDULED})
    if facts.failure is not None:
        return with_condition(conditions, facts.failure, now)
    old = condition(conditions, SYNCHRONIZED)
    # The last word on a run that never got further stays; otherwise what failed before is over.
    if old is not None and old.reason in (START_REASONS | REASONS) and phase != "Failed":
        return without_conditions(conditions, {SYNCHRONIZED})
    return conditions


def _with_data_volumes(
    conditions: list[Condition],
    vmi: VirtualMachineInstance,
    claims: Mapping[str, PersistentVolumeClaim],
    now: datetime,
) -> list[Condition]:
    wanted = data_volumes_ready(vmi, claims)
    if wanted is None:
        return without_conditions(conditions, {DATA_VOLUMES_READY})
    return with_condition(conditions, wanted, now)


def _ready(phase: Phase, pod: Pod | None, node: NodeState | None) -> Condition:
    if pod is None:
        was_there = phase not in ("", "Pending", "Scheduling")
        text = "virt-launcher pod is gone" if was_there else "virt-launcher pod has not yet been scheduled"
        return _not_ready("PodNotExists", text)
    is_lost = node is not None and bool(node.trouble) and not has_ended(pod)
    if pod.metadata.deletion_timestamp is not None or disruption(pod) is not None:
        return _not_ready("PodTerminating", _why_terminating(pod, node if is_lost else None))
    if is_lost and node is not None:
        text = f"node {node.name} is not ready, the guest may still run: {node.trouble}"
        return _not_ready(NODE_NOT_READY, f"{text} ({node.waits_for})" if node.waits_for else text)
    if phase != "Running":
        return guest_not_running()
    found = condition(pod.status.conditions, READY)
    if found is None:
        return _not_ready("PodConditionMissing", "virt-launcher pod is missing the Ready condition")
    return Condition(type=READY, status=found.status, reason=found.reason, message=found.message)


def _why_terminating(pod: Pod, lost: NodeState | None) -> str:
    by = disruption(pod)
    text = "virt-launcher pod is terminating"
    if by is not None:
        text = f"{text} ({by.reason}: {by.message})" if by.message else f"{text} ({by.reason})"
    if lost is None:
        return text
    text = f"{text}, but node {lost.name} is not ready, and the guest may still run there: {lost.trouble}"
    if lost.out_of_service:
        return f"{text} (the node is out of service: Kubernetes is about to remove its pods)"
    return f"{text} ({lost.waits_for or _UNTIL})"


def _not_ready(reason: str, message: str) -> Condition:
    return Condition(type=READY, status="False", reason=reason, message=message)
