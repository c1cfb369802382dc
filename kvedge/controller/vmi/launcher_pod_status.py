"""What a launcher Pod's status tells: whether the launcher can be taken over, has ended, or cannot start.

Called by the plan and the status of VMIs. Pure. Kubelets write most of it, admission webhooks may have put containers
of others (sidecars) into the Pod: the launcher is the container `compute`, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import COMPUTE_CONTAINER
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod
from kvedge.resources.types.pod_networks import NO_NETWORK

SYNCHRONIZED: Final = "Synchronized"
_DISRUPTION: Final = "DisruptionTarget"
_COLLECTED: Final = "DeletionByPodGC"
_NEVER_PULLED: Final = "ErrImageNeverPull"
_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})
# What kubelets and the node agent call it, and what the VMI says of it.
_WAITING_REASONS: Final[Mapping[str, str]] = {
    "ErrImagePull": "ErrImagePull",
    _NEVER_PULLED: "ErrImagePull",
    "InvalidImageName": "ErrImagePull",
    "ImagePullBackOff": "ImagePullBackOff",
    "CreateContainerConfigError": "CreateContainerConfigError",
    "CreateContainerError": "CreateContainerError",
    NO_NETWORK: NO_NETWORK,
}
# Its handler looks for it every two minutes where an installation has left the archive.
_IMAGE_REMEDY: Final = "where kvedge is installed it is loaded again within minutes, else run kvedge install there"
_DISK_NOT_RUNNING: Final = "RunContainerError"
# The container of an image is started again and again; what others put into the Pod may do so as it likes.
_RESTARTED_REASONS: Final = frozenset({_DISK_NOT_RUNNING, "CrashLoopBackOff"})
# Reasons of a Synchronized condition that is ours to take away again.
START_REASONS: Final = frozenset({"FailedCreate", _DISK_NOT_RUNNING, *_WAITING_REASONS.values()})


def has_ended(pod: Pod) -> bool:
    """Whether its kubelet says that nothing of the launcher runs any more.

    A Pod in phase Unknown, and one that was asked to end on a node that is lost, may still run. Beside kubelets only
    Kubernetes' Pod garbage collector writes a final phase, for a node that is gone or was declared out of service.
    """
    return pod.status.phase in FINAL_POD_PHASES or _termination(pod) is not None


def may_still_run(pod: Pod) -> bool:
    """Whether the Pod is called failed, and nobody has said of the launcher in it that it ended.

    So a kubelet that restarts speaks of a Pod that it does not take back: it ends the launcher only afterwards, or
    never, when its container runtime hangs. The Pod garbage collector speaks so of a node that is no more.
    """
    by = disruption(pod)
    is_collected = by is not None and by.reason == _COLLECTED
    return pod.status.phase == "Failed" and _termination(pod) is None and not is_collected


def has_succeeded(pod: Pod) -> bool:
    """Whether the launcher exited with 0, which it does only when its guest has shut down."""
    ended = _termination(pod)
    return pod.status.phase == "Succeeded" or (ended is not None and ended.exit_code == 0)


def has_ready_containers(pod: Pod) -> bool:
    """Whether the launcher runs, its disks are ready, and the Pod is on a node: it can be taken over.

    The launcher itself may have the guest's readiness probe, which nothing can answer before. What others put into the
    Pod may take its time, or end early: a guest does not wait for it.
    """
    compute = _compute(pod)
    runs = compute is not None and compute.state is not None and compute.state.running is not None
    ready = {status.name for status in pod.status.container_statuses if status.ready}
    disks = {container.name for container in pod.spec.containers if _holds_disk(container.name)}
    return runs and disks <= ready and bool(pod.spec.node_name) and pod.status.phase == "Running"


def compute_image(pod: Pod) -> str:
    """The launcher's image."""
    return next((item.image for item in pod.spec.containers if item.name == COMPUTE_CONTAINER), "")


def start_failure(pod: Pod, fields: Mapping[str, str] = _NO_FIELDS) -> Condition | None:
    """The Synchronized condition for a container that cannot start, or None.

    `fields` are those of the VMI that name networks, by the networks.
    """
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = None if status.state is None else status.state.waiting
        if waiting is None:
            continue
        if _holds_disk(status.name) and waiting.reason in _RESTARTED_REASONS:
            return _failure(_DISK_NOT_RUNNING, f"container {status.name} does not run: {_explain_end(status, waiting)}")
        if waiting.reason not in _WAITING_REASONS:
            continue
        message = waiting.message
        if status.name == COMPUTE_CONTAINER and waiting.reason == _NEVER_PULLED and not _names_another(pod, message):
            where = f"node {pod.spec.node_name}" if pod.spec.node_name else "its node"
            message = f"the launcher image {compute_image(pod)} is not on {where}: {_IMAGE_REMEDY}"
        if waiting.reason == NO_NETWORK:
            # A message names one network at most; that of the Pod's own has no field.
            at = next((field for name, field in fields.items() if _names(name, message)), "")
            message = f"{at}: {message}" if at else message
        return _failure(_WAITING_REASONS[waiting.reason], message)
    return None


def _names(network: str, message: str) -> bool:
    return any(f" network {network}{end}" in message for end in ": ")


def _names_another(pod: Pod, message: str) -> bool:
    """Whether the image that is missing is that of a disk: the launcher's container waits for its image volumes, too.

    Kubelets and the node agent quote the image that they miss. Nothing else in the status tells which one it is.
    """
    return '"' in message and f'"{compute_image(pod)}"' not in message


def end_failure(pod: Pod) -> Condition | None:
    """The Synchronized condition for a launcher that failed before it could be taken over, or None.

    A kubelet refuses a Pod for which its node has no room or no device, whatever the scheduler thought.
    """
    if not has_ended(pod) or has_succeeded(pod):
        return None
    ended = _termination(pod)
    reason = pod.status.reason or (ended.reason if ended is not None else "") or "PodFailed"
    message = pod.status.message or (ended.message if ended is not None else "")
    code = f" with exit code {ended.exit_code}" if ended is not None else ""
    where = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
    said = f"virt-launcher pod {pod.metadata.name} failed{where}{code}"
    return _failure(reason, f"{said}: {message}" if message else said)


def disruption(pod: Pod) -> Condition | None:
    """The condition of a Pod that somebody ends without the VM: a drain, a taint, the scheduler, a kubelet; or None."""
    found = condition(pod.status.conditions, _DISRUPTION)
    return found if found is not None and found.status == "True" else None


def _compute(pod: Pod) -> ContainerStatus | None:
    return next((status for status in pod.status.container_statuses if status.name == COMPUTE_CONTAINER), None)


def _termination(pod: Pod) -> ContainerStateTerminated | None:
    """How the launcher ended; a launcher Pod restarts nothing."""
    found = _compute(pod)
    return found.state.terminated if found is not None and found.state is not None else None


def _explain_end(status: ContainerStatus, waiting: ContainerStateWaiting) -> str:
    """The cause, which a kubelet keeps in the last state while it waits for the next try."""
    ended = None if status.last_state is None else status.last_state.terminated
    if ended is None:
        return waiting.message
    return ended.message or f"exit code {ended.exit_code}"


def _holds_disk(name: str) -> bool:
    # KubeVirt's names of containers that hold a container disk, or a kernel.
    return name.startswith("volume") or name == "kernel-boot"


def _failure(reason: str, message: str) -> Condition:
    return Condition(type=SYNCHRONIZED, status="False", reason=reason, message=message)
