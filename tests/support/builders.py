"""VMs, VMIs and Pods for the controller's tests, each with only what a test says about it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.launcher_pod_manifest import launcher_pod
from kvedge.resources.codec import decode
from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.names import VM_FINALIZER, VMI_FINALIZER
from kvedge.resources.phases import Phase
from kvedge.resources.types.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodStatus,
)
from kvedge.resources.types.vm import (
    StateChangeRequest,
    VirtualMachine,
    VirtualMachineInstanceTemplate,
    VirtualMachineSpec,
    VirtualMachineStatus,
)
from kvedge.resources.types.vmi import PhaseTransition, VirtualMachineInstance, VirtualMachineInstanceStatus

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VM_UID = "11111111-1111-1111-1111-111111111111"
VMI_UID = "22222222-2222-2222-2222-222222222222"
POD_UID = "33333333-3333-3333-3333-333333333333"
CONFIG = ClusterConfig(
    version="0.1.0",
    program=("/opt/kvedge/bin/kvedge",),
    program_directories=("/opt/kvedge",),
    capabilities_directory="/var/lib/kvedge/state/qemu-capabilities",
    default_architecture="amd64",
)
_PATH: tuple[Phase, ...] = ("Pending", "Scheduling", "Scheduled", "Running")


def a_vm(strategy: str = "Always", **status: Any) -> VirtualMachine:
    """A VM with our finalizer and an empty template."""
    return VirtualMachine(
        metadata=ObjectMeta(
            name="web", namespace="default", uid=VM_UID, resource_version="10", generation=1, finalizers=[VM_FINALIZER]
        ),
        spec=VirtualMachineSpec(run_strategy=strategy, template=VirtualMachineInstanceTemplate()),
        status=VirtualMachineStatus(**status),
    )


def a_vmi(
    phase: Phase = "Running", deleting: bool = False, owner: VirtualMachine | None = None
) -> VirtualMachineInstance:
    """A VMI that came to `phase` by the usual way; with `owner` it belongs to that VM."""
    from kvedge.controller.vm.vmi_template import owner_reference

    passed = _PATH[: _PATH.index(phase) + 1] if phase in _PATH else (*_PATH, phase) if phase else ()
    moment = "2026-01-02T03:00:00Z"
    vmi = VirtualMachineInstance(
        metadata=ObjectMeta(
            name="web",
            namespace="default",
            uid=VMI_UID,
            resource_version="20",
            deletion_timestamp=moment if deleting else None,
            finalizers=[VMI_FINALIZER] + ([VM_FINALIZER] if owner is not None else []),
            owner_references=[] if owner is None else [owner_reference(owner)],
        ),
        status=VirtualMachineInstanceStatus(
            phase=phase,
            phase_transition_timestamps=[PhaseTransition(phase=p, phase_transition_timestamp=moment) for p in passed],
        ),
    )
    if phase in ("Scheduled", "Running"):
        vmi.status.node_name = "node-1"
    return vmi


def never_ran(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
    """The same VMI, but its run ended before the guest ran."""
    vmi.status.phase_transition_timestamps = [
        entry for entry in vmi.status.phase_transition_timestamps if entry.phase != "Running"
    ]
    return vmi


def a_pod(vmi: VirtualMachineInstance, phase: str = "Pending", node: str = "", waiting: str = "") -> Pod:
    """The launcher Pod of a VMI; ready when it runs, waiting for `waiting` when that is given."""
    pod = launcher_pod(vmi, CONFIG)
    pod.metadata.uid = POD_UID
    pod.metadata.resource_version = "30"
    pod.spec.node_name = node
    state = ContainerState(waiting=ContainerStateWaiting(reason=waiting, message="no such image"))
    if phase == "Running":
        state = ContainerState(running=ContainerStateRunning(started_at="2026-01-02T03:00:00Z"))
    if phase in ("Succeeded", "Failed"):
        state = ended(phase)
    container = ContainerStatus(
        name="compute", ready=phase == "Running", restart_count=0, image="i", image_id="", state=state
    )
    ready = Condition(type="Ready", status="True" if phase == "Running" else "False", reason="")
    pod.status = PodStatus(phase=phase, conditions=[ready], container_statuses=[container])
    return pod


def ended(phase: str) -> ContainerState:
    """How a kubelet tells of a launcher that has exited."""
    code = 0 if phase == "Succeeded" else 1
    return ContainerState(terminated=ContainerStateTerminated(exit_code=code, reason="Error" if code else "Completed"))


def asked(action: str, uid: str | None = None, **data: str) -> StateChangeRequest:
    """A request of the api role."""
    return StateChangeRequest(action=action, uid=uid, data=data)


def patched(document: Any, patch: Any) -> Any:
    """RFC 7386, as the document writes it down."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = patched(result.get(key), value)
    return result


def vmi_of(document: dict[str, Any]) -> VirtualMachineInstance:
    """A VMI from the text of a manifest."""
    return decode(VirtualMachineInstance, document)
