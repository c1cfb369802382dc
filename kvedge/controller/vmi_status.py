"""The part of a VMI's status that the controller writes.

Called by the VMI's plan. Pure. All of it until the phase is Scheduled; from then on the handler writes, and the
controller keeps to the conditions that it alone can know from the Pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.condition_rules import with_condition, without_conditions
from kvedge.controller.vm_status import guest_not_running
from kvedge.resources.core import ContainerStatus, Pod
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import COMPUTE_CONTAINER, LAUNCHER_UID
from kvedge.resources.phases import Phase, check_transition
from kvedge.resources.quantities import format_bytes
from kvedge.resources.vmi import MemoryStatus, PhaseTransition, VirtualMachineInstance, VirtualMachineInstanceStatus
from kvedge.runtime.clock import rfc3339

SYNCHRONIZED: Final = "Synchronized"
_READY: Final = "Ready"
_POD_SCHEDULED: Final = "PodScheduled"
# What kubelets and the node agent call it, and what the VMI says of it.
_IMAGE_REASONS: Final[Mapping[str, str]] = {
    "ErrImagePull": "ErrImagePull",
    "ErrImageNeverPull": "ErrImagePull",
    "InvalidImageName": "ErrImagePull",
    "ImagePullBackOff": "ImagePullBackOff",
}
_OURS: Final = frozenset({"FailedCreate", "ErrImagePull", "ImagePullBackOff"})


@dataclass(frozen=True, slots=True)
class Facts:
    """What else goes into the status: memory overhead in bytes, why the phase is what it is, what failed."""

    overhead: int
    reason: str = ""
    failure: Condition | None = None


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
        conditions=_conditions(vmi, pod, phase, facts.failure, now),
    )
    if pod is None or phase == vmi.status.phase:
        # What else becomes known of the Pod meanwhile, such as its node, waits for the next phase: a write less.
        return changed
    return msgspec.structs.replace(
        changed,
        active_pods={**status.active_pods, pod.metadata.uid: pod.spec.node_name},
        qos_class=pod.status.qos_class or status.qos_class,
        launcher_container_image_version=_compute_image(pod),
    )


def after_hand_over(vmi: VirtualMachineInstance, pod: Pod | None, now: datetime) -> VirtualMachineInstanceStatus:
    """The handler's status with our Ready condition."""
    conditions = with_condition(vmi.status.conditions, _ready(vmi.status.phase, pod), now)
    return msgspec.structs.replace(vmi.status, conditions=without_conditions(conditions, {_POD_SCHEDULED}))


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


def image_failure(pod: Pod) -> Condition | None:
    """The Synchronized condition for an image that cannot be had, or None."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = None if status.state is None else status.state.waiting
        if waiting is not None and waiting.reason in _IMAGE_REASONS:
            reason = _IMAGE_REASONS[waiting.reason]
            return Condition(type=SYNCHRONIZED, status="False", reason=reason, message=waiting.message)
    return None


def has_ready_containers(pod: Pod) -> bool:
    """Whether all containers run and are ready, and the Pod is on a node: the launcher can be taken over."""
    statuses: Sequence[ContainerStatus] = pod.status.container_statuses
    complete = len(statuses) >= max(1, len(pod.spec.containers)) and all(_is_up(status) for status in statuses)
    return complete and bool(pod.spec.node_name) and pod.status.phase == "Running"


def _is_up(status: ContainerStatus) -> bool:
    """The launcher's own is ready when its guest says so, by a probe: to get there, it must be taken over first."""
    runs = status.state is not None and status.state.running is not None
    return status.ready or (status.name == COMPUTE_CONTAINER and runs)


def _conditions(
    vmi: VirtualMachineInstance, pod: Pod | None, phase: Phase, failure: Condition | None, now: datetime
) -> list[Condition]:
    conditions = with_condition(vmi.status.conditions, _ready(phase, pod), now)
    scheduled = None if pod is None else condition(pod.status.conditions, _POD_SCHEDULED)
    if scheduled is not None and scheduled.status == "False":
        conditions = with_condition(conditions, scheduled, now)
    else:
        conditions = without_conditions(conditions, {_POD_SCHEDULED})
    if failure is not None:
        return with_condition(conditions, failure, now)
    old = condition(conditions, SYNCHRONIZED)
    # The last word on a run that never got further stays; otherwise what failed before is over.
    if old is not None and old.reason in _OURS and phase != "Failed":
        return without_conditions(conditions, {SYNCHRONIZED})
    return conditions


def _ready(phase: Phase, pod: Pod | None) -> Condition:
    if pod is None:
        return _not_ready("PodNotExists", "virt-launcher pod has not yet been scheduled")
    if pod.metadata.deletion_timestamp is not None:
        return _not_ready("PodTerminating", "virt-launcher pod is terminating")
    if phase != "Running":
        return guest_not_running()
    found = condition(pod.status.conditions, _READY)
    if found is None:
        return _not_ready("PodConditionMissing", "virt-launcher pod is missing the Ready condition")
    return Condition(type=_READY, status=found.status, reason=found.reason, message=found.message)


def _not_ready(reason: str, message: str) -> Condition:
    return Condition(type=_READY, status="False", reason=reason, message=message)


def _compute_image(pod: Pod) -> str:
    return next((item.image for item in pod.spec.containers if item.name == COMPUTE_CONTAINER), "")
