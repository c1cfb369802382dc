# Tests: kvedge/controller/vm/vm_plan.py, kvedge/controller/vmi/vmi_plan.py
"""From any state of a VM, its VMI and its Pods, repeated planning reaches what is wanted and then plans nothing;
on the way there never are two live launcher Pods, and never two guests.

Two controllers plan on what they saw last of a small model of a cluster (`world`), which may be old, and act later, in
any order.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from kvedge.controller.vm.vm_actions import VmPlan
from kvedge.controller.vmi.vmi_view import VmiPlan
from kvedge.resources.meta import OwnerReference
from kvedge.resources.names import VM_FINALIZER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vm import StartFailure, VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import (
    NOW,
    VMI_UID,
    a_pod,
    a_vm,
    a_vmi,
    asked,
    never_ran,
)
from tests.unit.controller.world import Stale, View, World


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
    guests: dict[str, str] = {}
    if vmi is not None:
        pod = draw(st.none() | any_pod(vmi))
        pods = {} if pod is None else {pod.metadata.name: pod}
        # A guest runs in a launcher, or in one whose Pod was deleted by force; a VMI that is over has none.
        may_run = pod is None or pod.status.phase == "Running"
        if may_run and vmi.status.phase in ("Scheduled", "Running") and draw(st.booleans()):
            guests = {vmi.metadata.uid: "node-1"}
    return World(vm, vmi, pods, guests=guests)


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
        before = world.runs()
        world.node_works()
        world.check()
        world.now += timedelta(seconds=30)
        step(world, world.view(), world.plan_vmi)
        world.kubelets_end_what_nobody_wants()
        if before == world.runs() and world.rests:
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


@settings(max_examples=400)
@given(worlds())
def test_from_any_state_planning_reaches_what_is_wanted_and_then_rests(world: World):
    before = copy.deepcopy(world)
    settle(world)
    wanted(world, before)


# One informer may be ahead of another.
SIGHTS = ["see 0", "see 1", "see-vm 0", "see-vmi 0", "see-pods 0", "see-vmi 1"]
STEPS = [
    *SIGHTS,
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
    "lose pod",
    "refuse pod",
    "end unwanted",
    "cut node",
    "bury node",
    "halt",
]


@settings(max_examples=400)
@given(worlds(), st.lists(st.sampled_from(STEPS), max_size=40))
def test_two_controllers_with_old_views_never_run_a_vm_twice_and_still_come_to_rest(world: World, steps: list[str]):
    views = [world.view(), world.view()]
    for name in steps:
        happen(world, views, name)
    come_to_rest(world)


# What takes a Pod's object away, or a node, and then much time for a controller that sees everything.
LOSSES = ["lose pod", "refuse pod", "delete pod", "delete vmi", "cut node", "uncut node", "bury node", "end unwanted"]
WORK = ["settle 0", "settle 0", "node", "wait"]


@settings(max_examples=400)
@given(st.lists(st.sampled_from([*LOSSES, *WORK, *WORK]), max_size=30))
def test_a_guest_outlives_its_pods_object_and_no_other_begins_beside_it(steps: list[str]):
    vm = a_vm("Always")
    vmi = a_vmi("Running", owner=vm)
    pod = a_pod(vmi, "Running", "node-1")
    world = World(vm, vmi, {pod.metadata.name: pod}, guests={VMI_UID: "node-1"})
    views = [world.view(), world.view()]
    for name in steps:
        happen(world, views, name)
    come_to_rest(world)
    assert world.vmi is not None
    assert list(world.guests) == [world.vmi.metadata.uid]


@settings(max_examples=400)
@given(st.lists(st.sampled_from([*SIGHTS, "vm 0", "vm 1", "vmi 0", "node", *2 * ["collect"]]), max_size=30))
def test_a_guest_whose_vm_is_deleted_with_orphan_goes_on_whatever_is_seen_first(steps: list[str]):
    vm = a_vm("Always")
    vmi = a_vmi("Running", owner=vm)
    pod = a_pod(vmi, "Running", "node-1")
    world = World(vm, vmi, {pod.metadata.name: pod}, guests={VMI_UID: "node-1"})
    views = [world.view(), world.view()]
    for name in ["orphan", *steps, "collect", "collect"]:
        happen(world, views, name)
        assert world.vmi is not None
        assert world.vmi.metadata.deletion_timestamp is None, name
    come_to_rest(world)
    assert world.vm is None
    assert world.vmi is not None
    assert world.vmi.metadata.deletion_timestamp is None
    assert world.guests == {VMI_UID: "node-1"}


def happen(world: World, views: list[View], name: str) -> None:
    """One step of a schedule, and a second passes."""
    verb, _, which = name.partition(" ")
    view = views[int(which)] if which in ("0", "1") else None
    if verb == "see":
        views[int(which)] = world.view()
    elif verb == "see-vm" and view is not None:
        view.vm = world.view().vm
    elif verb == "see-vmi" and view is not None:
        view.vmi = world.view().vmi
    elif verb == "see-pods" and view is not None:
        view.pods = world.view().pods
    elif verb == "vm" and view is not None:
        step(world, view, world.plan_vm)
    elif verb == "vmi" and view is not None:
        step(world, view, world.plan_vmi)
    elif verb == "settle":
        for _ in range(3):
            step(world, world.view(), world.plan_vm)
            step(world, world.view(), world.plan_vmi)
    elif verb == "node":
        world.node_works()
    elif verb == "wait":
        world.now += timedelta(seconds=100)
    elif verb in ("crash", "shut"):
        world.guest_ends("Failed" if verb == "crash" else "Succeeded")
    elif name == "delete pod":
        for pod in list(world.pods.values()):
            world._delete_pod(pod)
    elif verb == "lose":
        # Deleted by force, or by a store that was rolled back: the guest knows nothing of it.
        world.pods.clear()
    elif verb == "refuse":
        world.kubelet_refuses()
    elif verb == "end":
        world.kubelets_end_what_nobody_wants()
    elif verb == "cut":
        world.node_is_cut_off()
    elif verb == "uncut":
        world.is_cut = False
    elif verb == "bury":
        world.node_is_declared_dead()
    elif verb == "delete" and world.vmi is not None:
        world.vmi = world._deleted(world.vmi)
        world._collect()
    elif verb == "orphan":
        world.vm_is_deleted_with_orphan()
    elif verb == "collect":
        world.collector_orphans()
    elif verb == "halt" and world.vm is not None:
        world.vm.spec.run_strategy = "Halted"
        world.vm.metadata.resource_version = world._next()
    world.now += timedelta(seconds=1)
    world.check()


def come_to_rest(world: World) -> None:
    """As the world is, and again once everybody is reached."""
    settle(world)
    if world.is_cut:
        world.is_cut = False
        settle(world)
