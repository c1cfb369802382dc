"""A small model of an API server and of two nodes, for the tests of convergence.

The server has versions, finalizers and garbage collection; the nodes start what they are given. A guest runs from its
start until its node ends it, whatever becomes of its Pod's object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vm.vm_actions import (
    AdoptVmi,
    CreateVmi,
    DeleteVmi,
    KeepRevision,
    PatchVm,
    PatchVmStatus,
    VmAction,
    VmPlan,
)
from kvedge.controller.vm.vm_actions import PatchVmi as PatchVmiOfVm
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import (
    ConfirmPodLost,
    CreatePod,
    DeletePod,
    PatchPodStatus,
    PatchVmi,
    VmiAction,
    VmiPlan,
    VmiView,
)
from kvedge.resources.codec import decode, encode
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.core import ContainerState, ContainerStateRunning, ContainerStatus, Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import PhaseTransition, VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import (
    CONFIG,
    NOW,
    ended,
    patched,
)

T = TypeVar("T")
RUNNING = ContainerState(running=ContainerStateRunning(started_at="2026-01-02T03:00:00Z"))


def sent(item: T) -> T:
    """What the server sends of an object: another one, read from its document."""
    return item if item is None else decode(type(item), encode(item))


class Stale(Exception):
    """The server refuses what was planned on an old version, or on an object that is not there."""


@dataclass
class View:
    """What one controller has seen last."""

    vm: VirtualMachine | None
    vmi: VirtualMachineInstance | None
    pods: list[Pod]


@dataclass
class World:
    """The model: objects, a version that grows, and a clock."""

    vm: VirtualMachine | None
    vmi: VirtualMachineInstance | None
    pods: dict[str, Pod]
    now: datetime = NOW
    version: int = 1000
    serial: int = 0
    podless_since: datetime | None = None
    # node-1 cannot be reached: what runs there goes on, what was asked to end does not, and nobody tells of it.
    is_cut: bool = False
    # The guests that run: the UID of the VMI, and the node.
    guests: dict[str, str] = field(default_factory=dict)
    # VMIs of whose launcher a kubelet, or the garbage collector, said that it has ended.
    was_ended: set[str] = field(default_factory=set)
    # The ControllerRevisions of VMs that were started.
    revisions: set[str] = field(default_factory=set)

    def view(self) -> View:
        return View(sent(self.vm), sent(self.vmi), [sent(pod) for pod in self.pods.values()])

    def runs(self) -> tuple[object, ...]:
        """What there is of runs, to compare it with what there is later."""
        return {name: encode(pod) for name, pod in self.pods.items()}, self.vmi and encode(self.vmi), dict(self.guests)

    def own_pods(self, view: View) -> list[Pod]:
        assert view.vmi is not None
        owners = [(pod, pod.metadata.controller_reference()) for pod in view.pods]
        return [pod for pod, owner in owners if owner is not None and owner.uid == view.vmi.metadata.uid]

    # What controllers do.

    def plan_vm(self, view: View) -> VmPlan:
        return VmPlan() if view.vm is None else plan_vm(view.vm, view.vmi, self.now, 0.5)

    def plan_vmi(self, view: View) -> VmiPlan:
        if view.vmi is None:
            return VmiPlan()
        pods = self.own_pods(view)
        podless = 0.0
        if all(has_ended(pod) for pod in pods):
            self.podless_since = self.podless_since or self.now
            podless = (self.now - self.podless_since).total_seconds()
        else:
            self.podless_since = None
        others = [pod for pod in view.pods if pod not in pods]
        name = view.vmi.status.node_name or next((pod.spec.node_name for pod in pods if pod.spec.node_name), "")
        trouble = "" if self._is_reached(name) else "NodeStatusUnknown"
        node = NodeState(name, trouble, unresponsive=bool(trouble)) if name else None
        was_ended = view.vmi.metadata.uid in self.was_ended
        return plan_vmi(VmiView(view.vmi, pods, podless, others, node, was_ended), CONFIG, self.now)

    @property
    def rests(self) -> bool:
        """Whether nobody plans anything, now or later; who waits for a node that is cut off looks again and again."""
        plans = (self.plan_vm(self.view()), self.plan_vmi(self.view()))
        return all(not plan.actions and (self.is_cut or plan.again_after is None) for plan in plans)

    def do(self, view: View, action: VmAction | VmiAction) -> None:
        match action:
            case PatchVm(body) | PatchVmStatus(body):
                self.vm = self._patched(self.vm, view.vm, body)
                view.vm = sent(self.vm)
            case PatchVmiOfVm(vmi, body):
                self.vmi = self._patched(self.vmi, vmi, body)
                view.vmi = sent(self.vmi)
            case AdoptVmi(vmi, body):
                if self.vm is None or self.vm.metadata.deletion_timestamp is not None:
                    raise Stale
                self.vmi = self._patched(self.vmi, vmi, body)
            case PatchVmi(body):
                self.vmi = self._patched(self.vmi, view.vmi, body)
            case CreateVmi(vmi):
                self._create_vmi(vmi)
            case KeepRevision(revision, superseded):
                self.revisions = (self.revisions - {superseded}) | {revision.metadata.name}
            case DeleteVmi(vmi):
                if self.vmi is None or self.vmi.metadata.uid != vmi.metadata.uid:
                    raise Stale
                if view.vmi is None or self.vmi.metadata.resource_version != view.vmi.metadata.resource_version:
                    raise Stale
                self.vmi = self._deleted(self.vmi)
            case CreatePod(pod):
                self._create_pod(view, pod)
            case PatchPodStatus(pod, body):
                self._gate(pod, body)
            case DeletePod(pod):
                self._delete_pod(pod)
            case ConfirmPodLost(known):
                assert view.vmi is not None
                now = View(view.vm, view.vmi, list(self.pods.values()))
                if any(pod.metadata.uid not in known for pod in self.own_pods(now)):
                    raise Stale
        self._collect()

    def _patched(self, live: Any, planned_on: Any, body: dict[str, Any]) -> Any:
        if live is None or live.metadata.uid != planned_on.metadata.uid:
            raise Stale
        if live.metadata.resource_version != planned_on.metadata.resource_version:
            raise Stale
        document = patched(encode(live), body)
        made = decode(type(live), document)
        made.metadata.resource_version = self._next()
        gone = made.metadata.deletion_timestamp is not None and not made.metadata.finalizers
        return None if gone else made

    def _create_vmi(self, vmi: VirtualMachineInstance) -> None:
        if self.vmi is not None:
            raise Stale
        made = sent(vmi)
        self.serial += 1
        made.metadata.uid = f"vmi-{self.serial}"
        made.metadata.resource_version = self._next()
        made.status.phase = "Pending"
        self.vmi = made
        self.podless_since = None

    def _create_pod(self, view: View, pod: Pod) -> None:
        assert view.vmi is not None
        if self.vmi is None or self.vmi.metadata.resource_version != view.vmi.metadata.resource_version:
            raise Stale
        if pod.metadata.name in self.pods:
            raise Stale
        assert self.vmi.status.phase in ("", "Pending"), "a Pod for a run that has had one"
        made = sent(pod)
        self.serial += 1
        made.metadata.uid = f"pod-{self.serial}"
        made.metadata.resource_version = self._next()
        made.status.phase = "Pending"
        self.pods[made.metadata.name] = made

    def _gate(self, pod: Pod, body: dict[str, Any]) -> None:
        live = self.pods.get(pod.metadata.name)
        if live is None:
            return
        for item in body["status"]["conditions"]:
            wanted = decode(Condition, item)
            others = [old for old in live.status.conditions if old.type != wanted.type]
            live.status.conditions = [*others, wanted]

    def _delete_pod(self, pod: Pod) -> None:
        live = self.pods.get(pod.metadata.name)
        if live is None or live.metadata.uid != pod.metadata.uid:
            return
        if live.status.phase in ("Succeeded", "Failed") or not live.spec.node_name:
            del self.pods[pod.metadata.name]
        else:
            live.metadata.deletion_timestamp = rfc3339(self.now)

    def _deleted(self, item: Any) -> Any:
        if not item.metadata.finalizers:
            return None
        item.metadata.deletion_timestamp = item.metadata.deletion_timestamp or rfc3339(self.now)
        item.metadata.resource_version = self._next()
        return item

    def _collect(self) -> None:
        """Garbage collection: what its owner has left goes."""
        if self.vmi is not None and self.vm is None and self.vmi.metadata.deletion_timestamp is None:
            owner = self.vmi.metadata.controller_reference()
            if owner is not None and owner.kind == "VirtualMachine":
                self.vmi = self._deleted(self.vmi)
        for pod in list(self.pods.values()):
            owner = pod.metadata.controller_reference()
            if owner is not None and (self.vmi is None or owner.uid != self.vmi.metadata.uid):
                self._delete_pod(pod)

    def vm_is_deleted_with_orphan(self) -> None:
        """The guest is to go on; a second time changes nothing."""
        if self.vm is not None and self.vm.metadata.deletion_timestamp is None:
            self.vm.metadata.finalizers = [*self.vm.metadata.finalizers, "orphan"]
            self.vm = self._deleted(self.vm)

    def collector_orphans(self) -> None:
        """One step of the garbage collector's: it takes the owner from the VMI, then its finalizer from the VM."""
        vm, vmi = self.vm, self.vmi
        if vm is None or "orphan" not in vm.metadata.finalizers:
            return
        if vmi is not None and any(owner.uid == vm.metadata.uid for owner in vmi.metadata.owner_references):
            vmi.metadata.owner_references = [
                owner for owner in vmi.metadata.owner_references if owner.uid != vm.metadata.uid
            ]
            vmi.metadata.resource_version = self._next()
            return
        vm.metadata.finalizers = [finalizer for finalizer in vm.metadata.finalizers if finalizer != "orphan"]
        vm.metadata.resource_version = self._next()
        if not vm.metadata.finalizers:
            self.vm = None

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    # What the node does: kubelet and handler.

    def node_works(self) -> None:
        for name, pod in list(self.pods.items()):
            if pod.status.phase == "Pending" and not pod.spec.node_name and pod.metadata.deletion_timestamp is None:
                pod.spec.node_name = "node-2" if self.is_cut else "node-1"
            if pod.spec.node_name and not self._is_reached(pod.spec.node_name):
                continue
            if pod.metadata.deletion_timestamp is not None:
                self._end(_owner(pod), "Succeeded")
                self.was_ended.add(_owner(pod))
                del self.pods[name]
            elif pod.status.phase == "Pending":
                pod.status.phase = "Running"
                pod.status.container_statuses = [
                    ContainerStatus(name="compute", ready=True, restart_count=0, image="i", image_id="", state=RUNNING)
                ]
            gate = condition(pod.status.conditions, "kubevirt.io/virtual-machine-unpaused")
            if pod.status.phase == "Running" and gate is not None:
                pod.status.conditions = [gate, Condition(type="Ready", status=gate.status)]
        self._handler_works()
        self._collect()

    def _handler_works(self) -> None:
        vmi = self.vmi
        if vmi is None or vmi.status.phase not in ("Scheduled", "Running", "Unknown"):
            return
        launcher = self._launcher()
        if launcher is not None and vmi.status.phase in ("Scheduled", "Unknown"):
            if self._is_reached(launcher.spec.node_name):
                self.guests[vmi.metadata.uid] = launcher.spec.node_name
                self._enter("Running")
        elif launcher is None and vmi.metadata.uid not in self.guests and self._is_reached(vmi.status.node_name):
            # Nobody answers, and nothing of the launcher runs.
            self._enter("Failed")

    def kubelets_end_what_nobody_wants(self) -> None:
        """A guest whose Pod is gone, or was refused, has had its time."""
        wanted = {_owner(pod) for pod in self.pods.values() if pod.status.phase not in ("Succeeded", "Failed")}
        for uid, node in list(self.guests.items()):
            if uid not in wanted and self._is_reached(node):
                self._end(uid, "Succeeded")

    def kubelet_refuses(self) -> None:
        """It was restarted, and does not take its Pods back: they are called failed, and their guests run on."""
        for pod in self.pods.values():
            if self._is_reached(pod.spec.node_name) and pod.status.phase == "Running":
                pod.status.phase, pod.status.container_statuses = "Failed", []

    def _is_reached(self, node: str) -> bool:
        return bool(node) and not (self.is_cut and node == "node-1")

    def _launcher(self) -> Pod | None:
        assert self.vmi is not None
        pod = self.pods.get(launcher_pod_name(self.vmi))
        return pod if pod is not None and pod.status.phase == "Running" else None

    def _end(self, uid: str, phase: Any) -> None:
        """A guest ends, and its handler says how."""
        self.guests.pop(uid, None)
        if self.vmi is not None and self.vmi.metadata.uid == uid and self.vmi.status.phase in ("Scheduled", "Running"):
            self._enter(phase)

    def guest_ends(self, phase: Any) -> None:
        """The guest shuts down or crashes by itself; its Pod ends with it."""
        if self.vmi is None or not self._is_reached(self.guests.get(self.vmi.metadata.uid, "")):
            return
        pod = self._launcher()
        self._end(self.vmi.metadata.uid, phase)
        if pod is not None:
            pod.status.phase = "Succeeded" if phase == "Succeeded" else "Failed"
            pod.status.container_statuses[0].state = ended(pod.status.phase)

    def node_is_cut_off(self) -> None:
        """What ran goes on; after some time Kubernetes asks all its Pods to end, in vain."""
        self.is_cut = True
        for pod in list(self.pods.values()):
            if not self._is_reached(pod.spec.node_name) and pod.spec.node_name:
                pod.metadata.deletion_timestamp = rfc3339(self.now)

    def node_is_declared_dead(self) -> None:
        """It is dead; its Node was deleted, or is out of service: Pods are called failed, then removed."""
        if not self.is_cut:
            return
        self.was_ended |= {_owner(pod) for pod in self.pods.values() if pod.spec.node_name == "node-1"}
        self.pods = {name: pod for name, pod in self.pods.items() if pod.spec.node_name != "node-1"}
        self.guests = {uid: node for uid, node in self.guests.items() if node != "node-1"}
        self.is_cut = False

    def _enter(self, phase: Any) -> None:
        assert self.vmi is not None
        self.vmi.status.phase = phase
        entry = PhaseTransition(phase=phase, phase_transition_timestamp=rfc3339(self.now))
        self.vmi.status.phase_transition_timestamps.append(entry)
        self.vmi.metadata.resource_version = self._next()

    # What must always hold.

    def check(self) -> None:
        live = [pod for pod in self.pods.values() if pod.status.phase not in ("Succeeded", "Failed")]
        names = [pod.metadata.name for pod in live if pod.metadata.controller_reference() is not None]
        assert len(names) <= 1, f"two live launcher Pods: {names}"
        assert len(self.guests) <= 1, f"two guests: {self.guests}"


def _owner(pod: Pod) -> str:
    owner = pod.metadata.controller_reference()
    assert owner is not None
    return owner.uid
