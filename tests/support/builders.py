"""VMs, VMIs and Pods for tests of all tiers, each with only what a test says about it.

`a_vm`, `a_vmi` and `a_pod` are objects as the controller meets them on the way of one VM. `vmi_with` makes a VMI of
what a test says and nothing else, `small_vmi` the least document that admission accepts, `pod_document` and `plain_pod`
Pods that are no launchers.
"""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.names import VM_FINALIZER, VMI_FINALIZER
from kvedge.resources.phases import Phase
from kvedge.resources.types.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from kvedge.resources.types.storage import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    VolumeResources,
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
    from kvedge.resources.meta import owner_reference

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
    if phase in ("Scheduled", "Running", "Unknown"):
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


def a_claim(name: str = "web-root", phase: str = "Bound", **spec: Any) -> PersistentVolumeClaim:
    """A claim of 10Gi in a file system; `spec` has other fields, as the type names them."""
    size = {"storage": "10Gi"}
    given = {"access_modes": ["ReadWriteOnce"], "resources": VolumeResources(requests=size), **spec}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-of-{name}", resource_version="5"),
        spec=PersistentVolumeClaimSpec(**given),
        status=PersistentVolumeClaimStatus(phase=phase, capacity=size if phase == "Bound" else {}),
    )


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


def vmi_with(
    spec: JsonObject | None = None, status: JsonObject | None = None, **metadata: Any
) -> VirtualMachineInstance:
    """A VMI called web with this spec, status and metadata, as manifests write them."""
    metadata = {"name": "web", "namespace": "default", **metadata}
    return vmi_of({"metadata": metadata, "spec": spec or {}, "status": status or {}})


def owned_by(kind: str, name: str, uid: str) -> JsonObject:
    """The reference to an owner that controls: a VM, or a VMI."""
    return {"apiVersion": "kubevirt.io/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def bridged(**interface: Any) -> JsonObject:
    """The spec of a VMI with the default interface on the pod network; `interface` adds to the interface."""
    return {
        "domain": {"devices": {"interfaces": [{"name": "default", "bridge": {}, **interface}]}},
        "networks": [{"name": "default", "pod": {}}],
    }


def with_volumes(*volumes: JsonObject, without_disk: str = "", **domain: Any) -> JsonObject:
    """The spec of a VMI with these volumes and a disk for each, except for the volume `without_disk`."""
    disks = [{"name": volume["name"], "disk": {}} for volume in volumes if volume["name"] != without_disk]
    return {"domain": {"devices": {"disks": disks}, **domain}, "volumes": list(volumes)}


SMOKE: Final = Path(__file__).parent / "manifests/kubevirt-smoke-fedora.yaml"


def smoke_vm() -> JsonObject:
    """The manifest of a real user."""
    return yaml.safe_load(SMOKE.read_text())


def small_vmi(**changes: Any) -> JsonObject:
    """A VMI with the least that is accepted; `changes` are dotted paths below spec with `__` for dots."""
    spec: JsonObject = {
        "domain": {
            "memory": {"guest": "64Mi"},
            "devices": {
                "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                "interfaces": [{"name": "default", "bridge": {}}],
            },
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": "root", "containerDisk": {"image": "demo:1"}}],
    }
    for path, value in changes.items():
        put(spec, path.replace("__", "."), value)
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "small", "namespace": "default"},
        "spec": spec,
    }


def vm_of(vmi: JsonObject, **spec: Any) -> JsonObject:
    """A VM with that VMI as its template."""
    template = {"metadata": {}, "spec": copy.deepcopy(vmi["spec"])}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "small", "namespace": "default"},
        "spec": {**(spec if spec else {"runStrategy": "Always"}), "template": template},
    }


def replica_set_of(vmi: JsonObject, replicas: int | None = 2, **spec: Any) -> JsonObject:
    """A ReplicaSet with that VMI as its template, by the label app=web."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": dict(labels)}, "spec": copy.deepcopy(vmi["spec"])}
    numbered = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {**numbered, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def pool_of(vmi: JsonObject, replicas: int | None = 2, strategy: str = "Halted", **spec: Any) -> JsonObject:
    """A pool of VMs with that VMI as their template, by the label app=web."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": dict(labels)}, "spec": vm_of(vmi, runStrategy=strategy)["spec"]}
    numbered = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "pool.kubevirt.io/v1beta1",
        "kind": "VirtualMachinePool",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {**numbered, "selector": {"matchLabels": labels}, "virtualMachineTemplate": template, **spec},
    }


def put(document: Any, path: str, value: Any) -> None:
    """Set one member by its path, such as `domain.devices.disks[0].cache`; None removes it."""
    names = path.replace("[", ".[").split(".")
    for name, following in itertools.pairwise(names):
        if name.startswith("["):
            document = document[int(name[1:-1])]
        else:
            document = document.setdefault(name, [] if following.startswith("[") else {})
    last = names[-1]
    if last.startswith("["):
        index = int(last[1:-1])
        if index == len(document):
            document.append(value)
        else:
            document[index] = value
    elif value is None:
        document.pop(last, None)
    else:
        document[last] = value


def pod_document(
    *containers: JsonObject, status: JsonObject | None = None, metadata: JsonObject | None = None, **spec: Any
) -> JsonObject:
    """The document of a Pod called p with these containers, or with one; `spec` adds to its spec."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **(metadata or {})},
        "spec": {"containers": [*containers] or [{"name": "main", "image": "x"}], **spec},
    }
    return document if status is None else {**document, "status": status}


def plain_pod(*names: str, init: tuple[str, ...] = (), status: PodStatus | None = None, **spec: Any) -> Pod:
    """A Pod that is bound to the node `box`, with containers of these names."""

    def made(name: str) -> Container:
        return Container(name=name, image="busybox", command=["true"])

    return Pod(
        metadata=ObjectMeta(name="p", namespace="ns", uid="uid-1"),
        spec=PodSpec(
            containers=[made(name) for name in names or ("c",)],
            init_containers=[made(name) for name in init],
            **{"node_name": "box", "restart_policy": "Never", **spec},
        ),
        status=status or PodStatus(),
    )
