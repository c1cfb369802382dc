"""From any state of a VM, its VMI and its Pods, repeated planning reaches what is wanted and then plans nothing;
on the way there never are two live launcher Pods.

The world is a small model of an API server (versions, finalizers, garbage collection) and of a node that starts what
it is given. Two controllers plan on what they saw last, which may be old, and act later, in any order.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kvedge.controller.launcher_pod_manifest import launcher_pod_name
from kvedge.controller.launcher_pod_status import has_ended
from kvedge.controller.node_plan import NodeState
from kvedge.controller.vm_plan import AdoptVmi, CreateVmi, DeleteVmi, PatchVm, PatchVmStatus, VmAction, VmPlan, plan_vm
from kvedge.controller.vm_plan import PatchVmi as PatchVmiOfVm
from kvedge.controller.vmi_plan import (
    ConfirmPodLost,
    CreatePod,
    DeletePod,
    PatchPodStatus,
    PatchVmi,
    VmiAction,
    VmiPlan,
    VmiView,
    plan_vmi,
)
from kvedge.resources.codec import decode, encode
from kvedge.resources.core import ContainerState, ContainerStateRunning, ContainerStatus, Pod
from kvedge.resources.meta import Condition, OwnerReference, condition
from kvedge.resources.names import VM_FINALIZER
from kvedge.resources.vm import StartFailure, VirtualMachine
from kvedge.resources.vmi import PhaseTransition, VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.unit.controller.builders import (
    CONFIG,
    NOW,
    VMI_UID,
    a_pod,
    a_vm,
    a_vmi,
    asked,
    ended,
    never_ran,
    patched,
)

RUNNING = ContainerState(running=ContainerStateRunning(started_at="2026-01-02T03:00:00Z"))


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
    # The node cannot be reached: what runs there goes on, what was asked to end does not, and nobody tells of it.
    is_cut: bool = False

    def view(self) -> View:
        return copy.deepcopy(View(self.vm, self.vmi, list(self.pods.values())))

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
        node = NodeState("node-1", "NodeStatusUnknown", self.is_cut) if self.is_cut else None
        return plan_vmi(VmiView(view.vmi, pods, podless, others, node), CONFIG, self.now)

    @property
    def rests(self) -> bool:
        """Whether nobody plans anything, now or later; who waits for a node that is cut off looks again and again."""
        plans = (self.plan_vm(self.view()), self.plan_vmi(self.view()))
        return all(not plan.actions and (self.is_cut or plan.again_after is None) for plan in plans)

    def do(self, view: View, action: VmAction | VmiAction) -> None:
        match action:
            case PatchVm(body) | PatchVmStatus(body):
                self.vm = self._patched(self.vm, view.vm, body)
                view.vm = copy.deepcopy(self.vm)
            case PatchVmiOfVm(vmi, body):
                self.vmi = self._patched(self.vmi, vmi, body)
            case AdoptVmi(vmi, body):
                if self.vm is None or self.vm.metadata.deletion_timestamp is not None:
                    raise Stale
                self.vmi = self._patched(self.vmi, vmi, body)
            case PatchVmi(body):
                self.vmi = self._patched(self.vmi, view.vmi, body)
            case CreateVmi(vmi):
                self._create_vmi(vmi)
            case DeleteVmi(vmi):
                if self.vmi is None or self.vmi.metadata.uid != vmi.metadata.uid:
                    raise Stale
                self.vmi = self._deleted(self.vmi)
            case CreatePod(pod):
                self._create_pod(view, pod)
            case PatchPodStatus(pod, body):
                self._gate(pod, body)
            case DeletePod(pod):
                self._delete_pod(pod)
            case ConfirmPodLost():
                assert view.vmi is not None
                now = copy.deepcopy(view)
                now.pods = list(self.pods.values())
                if self.own_pods(now):
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
        made = copy.deepcopy(vmi)
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
        made = copy.deepcopy(pod)
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

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    # What the node does: kubelet and handler.

    def node_works(self) -> None:
        if self.is_cut:
            return
        for name, pod in list(self.pods.items()):
            if pod.metadata.deletion_timestamp is not None:
                self._handler_ends(pod)
                del self.pods[name]
            elif pod.status.phase == "Pending":
                pod.spec.node_name = "node-1"
                pod.status.phase = "Running"
                pod.status.container_statuses = [
                    ContainerStatus(name="compute", ready=True, restart_count=0, image="i", image_id="", state=RUNNING)
                ]
            gate = condition(pod.status.conditions, "kubevirt.io/virtual-machine-unpaused")
            if pod.status.phase == "Running" and gate is not None:
                pod.status.conditions = [gate, Condition(type="Ready", status=gate.status)]
        vmi = self.vmi
        if vmi is not None and vmi.status.phase in ("Scheduled", "Unknown") and self._launcher() is not None:
            self._enter("Running")
        self._collect()

    def _launcher(self) -> Pod | None:
        assert self.vmi is not None
        pod = self.pods.get(launcher_pod_name(self.vmi))
        return pod if pod is not None and pod.status.phase == "Running" else None

    def _handler_ends(self, pod: Pod) -> None:
        owner = pod.metadata.controller_reference()
        if self.vmi is None or owner is None or owner.uid != self.vmi.metadata.uid:
            return
        if self.vmi.status.phase in ("Scheduled", "Running"):
            self._enter("Succeeded")

    def guest_ends(self, phase: Any) -> None:
        """The guest shuts down or crashes by itself; its Pod ends with it."""
        if self.is_cut or self.vmi is None or self.vmi.status.phase not in ("Scheduled", "Running"):
            return
        pod = self._launcher()
        self._enter(phase)
        if pod is not None:
            pod.status.phase = "Succeeded" if phase == "Succeeded" else "Failed"
            pod.status.container_statuses[0].state = ended(pod.status.phase)

    def node_is_cut_off(self) -> None:
        """What ran goes on; after some time Kubernetes asks all its Pods to end, in vain."""
        self.is_cut = True
        for pod in list(self.pods.values()):
            if pod.spec.node_name:
                pod.metadata.deletion_timestamp = rfc3339(self.now)

    def node_is_declared_dead(self) -> None:
        """Its Node was deleted, or is out of service: Pods are called failed, then removed."""
        if self.is_cut:
            self.pods = {name: pod for name, pod in self.pods.items() if not pod.spec.node_name}
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


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any state that a crash, a user or an older controller may have left behind."""
    strategies = ["Always", "RerunOnFailure", "Manual", "Halted", "Once"]
    vm = a_vm(draw(st.sampled_from(strategies)), run_strategy=draw(st.sampled_from(["", *strategies])))
    requests = [asked("Start"), asked("Start", paused="true"), asked("Stop", VMI_UID), asked("Stop", "another")]
    vm.status.state_change_requests = draw(st.lists(st.sampled_from(requests), max_size=2))
    vm.status.printable_status = draw(st.sampled_from(["", "Running", "Stopped"]))
    if draw(st.booleans()):
        retry = rfc3339(NOW + timedelta(seconds=draw(st.integers(-10, 300))))
        uid = draw(st.sampled_from(["", VMI_UID]))
        vm.status.start_failure = StartFailure(
            consecutive_fail_count=draw(st.integers(1, 9)), last_failed_vmi_uid=uid, retry_after_timestamp=retry
        )
    if draw(st.booleans()):
        vm.metadata.finalizers = []
    elif draw(st.integers(0, 3)) == 0:
        vm.metadata.deletion_timestamp = rfc3339(NOW)
    vmi = draw(st.none() | any_vmi(vm))
    pods: dict[str, Pod] = {}
    if vmi is not None:
        pod = draw(st.none() | any_pod(vmi))
        pods = {} if pod is None else {pod.metadata.name: pod}
    return World(vm, vmi, pods)


@st.composite
def any_vmi(draw: st.DrawFn, vm: VirtualMachine) -> VirtualMachineInstance:
    phases: Any = ["", "Pending", "Scheduling", "Scheduled", "Running", "Succeeded", "Failed", "Unknown"]
    vmi = a_vmi(draw(st.sampled_from(phases)), deleting=draw(st.booleans()), owner=draw(st.sampled_from([None, vm])))
    if draw(st.integers(0, 4)) == 0:
        stranger = OwnerReference(api_version="v1", kind="Other", name="x", uid="stranger", controller=True)
        vmi.metadata.owner_references = [stranger]
    if draw(st.booleans()):
        vmi = never_ran(vmi) if vmi.status.phase != "Running" else vmi
    if vmi.metadata.deletion_timestamp is None and draw(st.booleans()):
        vmi.metadata.finalizers = draw(st.sampled_from([[], [VM_FINALIZER]]))
    return vmi


@st.composite
def any_pod(draw: st.DrawFn, vmi: VirtualMachineInstance) -> Pod:
    phase = draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]))
    # What has no node cannot have run.
    pod = a_pod(vmi, phase, draw(st.sampled_from(["", "node-1"])) if phase == "Pending" else "node-1")
    if draw(st.booleans()):
        pod.metadata.deletion_timestamp = rfc3339(NOW)
    return pod


def settle(world: World) -> None:
    """Let one controller and the node work, and time pass, until nobody has anything to do."""
    for _ in range(60):
        step(world, world.view(), world.plan_vm)
        step(world, world.view(), world.plan_vmi)
        before = copy.deepcopy(world.pods), copy.deepcopy(world.vmi)
        world.node_works()
        world.check()
        world.now += timedelta(seconds=30)
        if before == (world.pods, world.vmi) and world.rests:
            return
    raise AssertionError(f"no rest after 60 rounds: {world.plan_vm(world.view())} {world.plan_vmi(world.view())}")


def step(world: World, view: View, plan: Callable[[View], VmPlan | VmiPlan]) -> None:
    """Carry a plan out as far as the server lets it."""
    try:
        for action in plan(view).actions:
            world.do(view, action)
            world.check()
    except Stale:
        event("a stale write was refused")


def wanted(world: World, before: World) -> None:
    """What must have come out of it."""
    start = before.vm
    assert start is not None
    if start.metadata.deletion_timestamp is not None:
        assert world.vm is None
        return
    assert world.vm is not None
    strategy, vmi = world.vm.run_strategy, world.vmi
    stranger = vmi is not None and (owner := vmi.metadata.controller_reference()) and owner.uid != world.vm.metadata.uid
    if stranger:
        return
    if strategy == "Always":
        assert vmi is not None
        assert vmi.status.phase == "Running"
        assert world.vm.status.printable_status == "Running"
        assert world.vm.status.ready
    elif strategy == "Halted":
        assert vmi is None
        assert world.vm.status.printable_status == "Stopped"
        assert not world.pods
    elif strategy == "Once":
        assert vmi is not None
    if vmi is not None and not vmi.is_final:
        assert vmi.metadata.deletion_timestamp is None
        assert vmi.status.phase == "Running"


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_from_any_state_planning_reaches_what_is_wanted_and_then_rests(world: World):
    before = copy.deepcopy(world)
    settle(world)
    wanted(world, before)


STEPS = [
    "see 0",
    "see 1",
    "vm 0",
    "vm 1",
    "vmi 0",
    "vmi 1",
    "node",
    "node",
    "crash",
    "shut down",
    "delete vmi",
    "delete pod",
    "lose pod",
    "cut node",
    "bury node",
    "halt",
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), st.lists(st.sampled_from(STEPS), max_size=40))
def test_two_controllers_with_old_views_never_run_a_vm_twice_and_still_come_to_rest(world: World, steps: list[str]):
    views = [world.view(), world.view()]
    for name in steps:
        verb, _, which = name.partition(" ")
        view = views[int(which)] if which in ("0", "1") else None
        if verb == "see":
            views[int(which)] = world.view()
        elif verb == "vm" and view is not None:
            step(world, view, world.plan_vm)
        elif verb == "vmi" and view is not None:
            step(world, view, world.plan_vmi)
        elif verb == "node":
            world.node_works()
        elif verb in ("crash", "shut"):
            world.guest_ends("Failed" if verb == "crash" else "Succeeded")
        elif name == "delete pod":
            for pod in list(world.pods.values()):
                world._delete_pod(pod)
        elif verb == "lose":
            # Deleted by force while its node is away: the guest is gone with it in this model.
            world.pods.clear()
        elif verb == "cut":
            world.node_is_cut_off()
        elif verb == "bury":
            world.node_is_declared_dead()
        elif verb == "delete" and world.vmi is not None:
            world.vmi = world._deleted(world.vmi)
            world._collect()
        elif verb == "halt" and world.vm is not None:
            world.vm.spec.run_strategy = "Halted"
            world.vm.metadata.resource_version = world._next()
        world.now += timedelta(seconds=1)
        world.check()
    settle(world)
    if world.is_cut:
        world.is_cut = False
        settle(world)
