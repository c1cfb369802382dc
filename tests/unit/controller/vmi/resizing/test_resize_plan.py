# Tests: kvedge/controller/vmi/resizing/resize_plan.py, kvedge/controller/vmi/resizing/room_reasons.py
"""How large a running guest's Pod has to be, and for how large a guest it has room."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import pod_resources
from kvedge.controller.vmi.resizing.guest_size import made_for
from kvedge.controller.vmi.resizing.resize_plan import next_look, plan_resize, plan_room
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import PatchVmi, ResizePod, VmiView
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.meta import Condition
from kvedge.resources.moves.pod_room import outgrows_pod, with_reason
from kvedge.resources.types.core import Container, ContainerStatus, Pod, ResourceAmounts
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import CpuTopology, MemoryStatus, PodRoom, VirtualMachineInstance
from kvedge.resources.values.quantities import parse_bytes, parse_quantity
from kvedge.runtime.clock import rfc3339
from tests.support.builders import CONFIG, NOW, a_pod, a_vmi
from tests.support.migrating import a_target_pod
from tests.support.values import replace

MIB = 1 << 20


def a_guest(sockets: int = 1, memory: str = "1Gi", **resources: JsonObject) -> VirtualMachineInstance:
    """A running guest of one CPU and 1Gi, which is to have these by now."""
    vmi = a_vmi("Running")
    vmi.status.node_name = "n1"
    vmi.spec.architecture = "amd64"
    vmi.spec.domain = decode(
        DomainSpec,
        {
            "cpu": {"sockets": sockets, "cores": 1, "threads": 1, "maxSockets": 8},
            "memory": {"guest": memory, "maxGuest": "8Gi"},
            "resources": resources,
        },
    )
    vmi.status.current_cpu_topology = CpuTopology(sockets=1, cores=1, threads=1)
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current="1Gi", guest_requested="1Gi")
    return vmi


def its_pod(vmi: VirtualMachineInstance, **resources: JsonObject) -> Pod:
    """The Pod that was made for such a VMI, as a kubelet that can resize Pods reports it."""
    pod = a_pod(vmi, "Running", node="n1")
    size = pod_resources(vmi, CONFIG)
    size.limits = {name: amount for name, amount in size.limits.items() if name in ("cpu", "memory")}
    size.limits |= resources.get("limits", {})
    pod.spec.containers = [Container(name="compute", resources=size), Container(name="guest-console-log")]
    return reported(pod)


def reported(pod: Pod, *conditions: Condition) -> Pod:
    """The kubelet has given the Pod what its spec says, or has these conditions to tell."""
    size = pod.spec.containers[0].resources
    if not conditions:
        pod.status.container_statuses = [
            ContainerStatus(
                name="compute",
                ready=True,
                restart_count=0,
                image="",
                image_id="",
                allocated_resources=dict(size.requests),
                resources=ResourceAmounts(requests=dict(size.requests), limits=dict(size.limits)),
            )
        ]
    pod.status.conditions = list(conditions)
    return pod


def ordered(pod: Pod, body: JsonObject) -> Pod:
    """The server has taken the order."""
    (container,) = body["spec"]["containers"]
    assert container["name"] == "compute"
    for kind, amounts in container["resources"].items():
        getattr(pod.spec.containers[0].resources, kind).update(amounts)
    return pod


def order(vmi: VirtualMachineInstance, pod: Pod) -> JsonObject:
    (found,) = plan_resize(vmi, pod, CONFIG)
    return found.body


def pending(reason: str, message: str = "OutOfmemory", type_: str = "PodResizePending") -> Condition:
    return Condition(type=type_, status="True", reason=reason, message=message)


def test_a_guest_that_has_what_it_is_to_have_has_a_pod_that_nobody_touches() -> None:
    vmi = a_guest()
    pod = its_pod(vmi)
    # By another release, or another configuration, it would be another size.
    pod.spec.containers[0].resources.requests["memory"] = "17Mi"
    assert (plan_resize(vmi, pod, CONFIG), plan_room(vmi, pod, CONFIG, NOW)) == ((), None)


def test_a_pod_grows_by_what_cpus_and_memory_cost_and_nothing_more() -> None:
    pod = its_pod(a_guest())
    before = dict(pod.spec.containers[0].resources.requests)
    body = order(a_guest(2, "2Gi"), pod)
    requests = body["spec"]["containers"][0]["resources"]["requests"]
    assert set(requests) == {"cpu", "memory"}
    assert parse_quantity(requests["cpu"]) == 2 * parse_quantity(before["cpu"])
    # The guest's own, a vCPU's stack, and page tables.
    assert parse_bytes(requests["memory"]) - parse_bytes(before["memory"]) == (1024 + 4 + 2) * MIB


def test_room_for_cpus_that_may_come_costs_the_pod_nothing() -> None:
    small, large = a_guest(), a_guest()
    assert small.spec.domain.cpu is not None
    small.spec.domain.cpu.max_sockets = 1
    assert pod_resources(small, CONFIG) == pod_resources(large, CONFIG)


def test_the_guest_waits_for_its_pod_from_the_order_to_the_kubelets_word() -> None:
    vmi = a_guest(4, "2Gi")
    pod = its_pod(a_guest())
    before = PodRoom(node="n1", vcpus=1, memory="1Gi", reason="Resizing")
    assert plan_room(vmi, pod, CONFIG, NOW) == before
    ordered(pod, order(vmi, pod))
    assert plan_resize(vmi, pod, CONFIG) == (), "ordered once"
    assert plan_room(vmi, pod, CONFIG, NOW) == before, "the kubelet has not looked"
    reported(pod, pending("", "", "PodResizeInProgress"))
    assert plan_room(vmi, pod, CONFIG, NOW) == before
    assert plan_room(vmi, reported(pod), CONFIG, NOW) == PodRoom(node="n1", vcpus=4, memory="2Gi")


@pytest.mark.parametrize(
    ("told", "reason", "words"),
    [
        (pending("Deferred"), "Deferred", "has no room for a larger Pod now, which is resized as soon as"),
        (pending("Infeasible"), "Infeasible", "cannot be resized on its node: OutOfmemory; the guest gets it in"),
        (
            pending("Infeasible", "Node didn't have enough capacity: cpu"),
            "NodeTooSmall",
            "take the change of the VM back",
        ),
        (pending("Error", "EBUSY", "PodResizeInProgress"), "ResizeFailed", "and tries again: EBUSY"),
    ],
)
def test_what_the_kubelet_has_against_it_is_told(told: Condition, reason: str, words: str) -> None:
    told.last_transition_time = rfc3339(NOW)
    vmi = a_guest(4)
    pod = its_pod(a_guest())
    room = plan_room(vmi, reported(ordered(pod, order(vmi, pod)), told), CONFIG, NOW)
    assert room is not None
    assert (room.vcpus, room.reason) == (1, reason)
    assert words in room.message


@pytest.mark.parametrize(
    ("since", "reason", "looks"),
    [(NOW - timedelta(seconds=170), "ResizeFailed", True), (NOW - timedelta(seconds=190), "ResizeKeepsFailing", False)],
    ids=["for a while", "for long"],
)
def test_what_fails_for_long_is_for_another_pod(since: datetime, reason: str, looks: bool) -> None:
    vmi = a_guest(4)
    pod = its_pod(a_guest())
    told = pending("Error", "EBUSY", "PodResizeInProgress")
    reported(ordered(pod, order(vmi, pod)), told)
    vmi.status.pod_room = plan_room(vmi, pod, CONFIG, since)
    vmi.status.pod_room = plan_room(vmi, pod, CONFIG, NOW)
    assert vmi.status.pod_room is not None
    assert (vmi.status.pod_room.reason, next_look(vmi.status.pod_room) is not None) == (reason, looks)
    assert outgrows_pod(vmi) is not looks
    assert ("or by a migration" in vmi.status.pod_room.message) is not looks
    plan = plan_vmi(VmiView(vmi, (pod,)), CONFIG, NOW)
    assert (plan.again_after is not None) is looks


def test_what_failed_for_long_says_nothing_of_another_size() -> None:
    """The node does not get the limit down, which harms nobody; then the guest is to have a part of it again."""
    long_ago = NOW - timedelta(minutes=10)
    told = pending("Error", "EBUSY", "PodResizeInProgress")
    told.last_transition_time = rfc3339(long_ago)
    vmi, pod = a_guest(memory="1Gi"), its_pod(a_guest(memory="4Gi"))
    vmi.status.pod_room = PodRoom(node="n1", vcpus=1, memory="4Gi")
    reported(ordered(pod, order(vmi, pod)), told)
    for now in (long_ago, NOW):
        vmi.status.pod_room = plan_room(vmi, pod, CONFIG, now)
    assert vmi.status.pod_room is not None
    assert vmi.status.pod_room.reason == "ResizeKeepsFailing"
    vmi.spec.domain = a_guest(memory="3Gi").spec.domain
    assert not outgrows_pod(vmi), "before the controller has looked at it"
    vmi.status.pod_room = plan_room(vmi, pod, CONFIG, NOW)
    assert vmi.status.pod_room is not None
    assert (vmi.status.pod_room.reason, vmi.status.pod_room.failing_since) == ("Resizing", None)
    ordered(pod, order(vmi, pod))
    vmi.status.pod_room = plan_room(vmi, pod, CONFIG, NOW)
    assert vmi.status.pod_room is not None
    assert vmi.status.pod_room.reason == "ResizeFailed", "the node has not looked at the new order"
    assert not outgrows_pod(vmi)
    vmi.status.pod_room = plan_room(vmi, pod, CONFIG, NOW + timedelta(minutes=4))
    assert outgrows_pod(vmi), "by now it is this order that fails"


def test_what_the_server_refused_says_nothing_of_another_size() -> None:
    vmi, pod = a_guest(4), its_pod(a_guest())
    room = with_reason(PodRoom(node="n1", vcpus=1, memory="1Gi"), vmi, "ResizeRefused", "no")
    vmi.status.pod_room = room
    assert (outgrows_pod(vmi), plan_room(vmi, pod, CONFIG, NOW)) == (True, room)
    vmi.spec.domain = a_guest(3).spec.domain
    assert not outgrows_pod(vmi)
    assert plan_room(vmi, pod, CONFIG, NOW) == PodRoom(node="n1", vcpus=1, memory="1Gi", reason="Resizing")


@pytest.mark.parametrize("told", [None, "Infeasible", "Error"])
def test_a_server_that_drops_newer_fields_is_told_of_them_once(told: str | None) -> None:
    vmi, pod = a_guest(4), its_pod(a_guest(), limits={"memory": "2Gi"})
    if told:
        type_ = "PodResizeInProgress" if told == "Error" else "PodResizePending"
        reported(ordered(pod, order(vmi, pod)), pending(told, type_=type_))

    def keep() -> None:
        room = plan_room(vmi, pod, CONFIG, NOW)
        assert room is not None
        newer = {"limit_above": None, "failing_since": None, "for_vcpus": None, "for_memory": None}
        vmi.status.pod_room = replace(room, **newer)

    keep()
    assert vmi.status.pod_room is not None
    assert plan_room(vmi, pod, CONFIG, NOW + timedelta(minutes=1)) == vmi.status.pod_room


def test_what_the_server_said_of_the_last_order_stays_until_it_takes_one() -> None:
    vmi = a_guest(4)
    vmi.status.pod_room = PodRoom(node="n1", vcpus=1, memory="1Gi", reason="QuotaExceeded", message="no")
    pod = its_pod(a_guest())
    assert plan_room(vmi, pod, CONFIG, NOW) == vmi.status.pod_room
    taken = plan_room(vmi, ordered(pod, order(vmi, pod)), CONFIG, NOW)
    assert taken is not None
    assert (taken.reason, taken.message) == ("Resizing", "")


def test_memory_is_taken_from_the_pod_once_the_guest_has_given_it_back() -> None:
    grown = a_guest(1, "4Gi")
    pod, vmi = its_pod(grown), a_guest(1, "2Gi")
    vmi.status.pod_room = PodRoom(node="n1", vcpus=1, memory="4Gi")
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current="4Gi", guest_requested="2Gi")
    assert plan_resize(vmi, pod, CONFIG) == ()
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current="2Gi", guest_requested="2Gi")
    reported(ordered(pod, order(vmi, pod)))
    assert pod.spec.containers[0].resources.requests == its_pod(vmi).spec.containers[0].resources.requests
    assert plan_room(vmi, pod, CONFIG, NOW) == PodRoom(node="n1", vcpus=1, memory="2Gi")


def test_a_pod_that_has_been_resized_stays_when_another_configuration_would_make_it_larger() -> None:
    vmi = a_guest(4)
    pod = its_pod(a_guest(4))
    vmi.status.pod_room = PodRoom(node="n1", vcpus=4, memory="1Gi")
    vmi.status.current_cpu_topology = CpuTopology(sockets=4, cores=1, threads=1)
    dearer = replace(CONFIG, cpu_allocation_ratio=1, memory_overcommit_percent=50)
    assert pod_resources(vmi, dearer).requests != pod.spec.containers[0].resources.requests
    assert (plan_resize(vmi, pod, dearer), plan_room(vmi, pod, dearer, NOW)) == ((), vmi.status.pod_room)
    vmi.spec.domain = a_guest(5).spec.domain
    assert plan_resize(vmi, pod, dearer)


def test_a_pod_that_was_made_for_the_guest_that_came_to_it_stays_as_it_is() -> None:
    vmi = a_guest(4)
    vmi.status.pod_room = PodRoom(node="n0", vcpus=1, memory="1Gi", reason="Infeasible", message="no")
    pod = its_pod(a_guest(4))
    pod.metadata.annotations |= made_for(vmi)
    # What the daemon of a guest that comes takes.
    pod.spec.containers[0].resources.requests["memory"] = "9Gi"
    assert (plan_resize(vmi, pod, CONFIG), plan_room(vmi, pod, CONFIG, NOW)) == (
        (),
        PodRoom(node="n1", vcpus=4, memory="1Gi"),
    )


def test_a_growth_that_is_taken_back_on_its_way_is_taken_back_from_the_pod() -> None:
    vmi = a_guest(4)
    pod = its_pod(a_guest())
    vmi.status.pod_room = plan_room(vmi, pod, CONFIG, NOW)
    ordered(pod, order(vmi, pod))
    vmi.status.pod_room = plan_room(vmi, pod, CONFIG, NOW)
    vmi.spec.domain = a_guest().spec.domain
    ordered(pod, order(vmi, pod))
    assert pod.spec.containers[0].resources.requests == its_pod(a_guest()).spec.containers[0].resources.requests
    assert plan_room(vmi, reported(pod), CONFIG, NOW) == PodRoom(node="n1", vcpus=1, memory="1Gi")


def test_a_pod_that_is_to_shrink_has_no_room_from_the_order_on() -> None:
    vmi = a_guest(memory="4Gi")
    pod = its_pod(vmi)
    vmi.status.pod_room = PodRoom(node="n1", vcpus=1, memory="4Gi")
    vmi.spec.domain = a_guest(memory="2Gi").spec.domain
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current="2Gi", guest_requested="2Gi")
    assert plan_resize(vmi, pod, CONFIG)
    room = plan_room(vmi, pod, CONFIG, NOW)
    assert room is not None
    assert parse_bytes(room.memory or 0) == 2048 * MIB


def test_memory_that_the_guest_may_still_take_stays_in_the_pod() -> None:
    vmi = a_guest(memory="4Gi")
    pod = its_pod(vmi)
    vmi.status.pod_room = PodRoom(node="n1", vcpus=1, memory="4Gi")
    vmi.spec.domain = a_guest(memory="2Gi").spec.domain
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current="1Gi", guest_requested="4Gi")
    assert plan_resize(vmi, pod, CONFIG) == ()


def test_limits_of_the_vm_and_those_of_the_namespace_grow_as_the_guest_does() -> None:
    pod = its_pod(a_guest(limits={"memory": "1Gi"}, requests={"memory": "1Gi"}))
    limits = order(a_guest(1, "3Gi", limits={"memory": "3Gi"}, requests={"memory": "3Gi"}), pod)
    resources = limits["spec"]["containers"][0]["resources"]
    assert parse_bytes(resources["limits"]["memory"]) == parse_bytes(resources["requests"]["memory"])
    theirs = its_pod(a_guest(), limits={"cpu": "1", "memory": "2Gi"})
    had = parse_bytes(theirs.spec.containers[0].resources.requests["memory"])
    body = order(a_guest(2, "4Gi"), theirs)
    resources = body["spec"]["containers"][0]["resources"]
    more = parse_bytes(resources["requests"]["memory"]) - had
    assert (resources["limits"]["cpu"], parse_bytes(resources["limits"]["memory"])) == ("2", 2048 * MIB + more)
    assert plan_resize(a_guest(2, "4Gi"), reported(ordered(theirs, body)), CONFIG) == ()


@pytest.mark.parametrize("server", ["lowers limits", "keeps them"])
def test_a_limit_of_the_namespace_does_not_climb_with_each_return_of_memory(server: str) -> None:
    """Kubernetes 1.33 keeps the limit of a Pod whose guest has given memory back, and lowers its request."""
    keeps = server == "keeps them"
    vmi, pod = a_guest(), its_pod(a_guest(), limits={"memory": "2Gi"})
    limits, first = [], parse_bytes(pod.spec.containers[0].resources.requests["memory"])
    for size in ("4Gi", "1Gi", "4Gi", "1Gi", "5Gi"):
        vmi.spec.domain = a_guest(memory=size).spec.domain
        if size == "1Gi":
            vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current=size, guest_requested=size)
        vmi.status.pod_room = plan_room(vmi, pod, CONFIG, NOW, keeps_limits=keeps)
        (found,) = plan_resize(vmi, pod, CONFIG, keeps_limits=keeps)
        reported(ordered(pod, found.body))
        vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current=size, guest_requested=size)
        vmi.status.pod_room = plan_room(vmi, pod, CONFIG, NOW, keeps_limits=keeps)
        assert plan_resize(vmi, pod, CONFIG, keeps_limits=keeps) == ()
        resources = pod.spec.containers[0].resources
        limits.append(parse_bytes(resources.limits["memory"]) - 2048 * MIB)
        assert parse_bytes(resources.requests["memory"]) - first >= (parse_bytes(size) - 1024 * MIB)
    grown, least, most = limits[0], 0 if not keeps else limits[0], limits[-1]
    assert limits == [grown, least, grown, least, most]
    assert 3072 * MIB <= grown <= 3080 * MIB
    assert 4096 * MIB <= most <= 4106 * MIB


def test_a_cpu_limit_below_the_guests_vcpus_or_far_above_stays() -> None:
    for limit in ("500m", "8"):
        theirs = its_pod(a_guest(), limits={"cpu": limit})
        resources = order(a_guest(2), theirs)["spec"]["containers"][0]["resources"]
        assert resources["limits"]["cpu"] == limit


def test_a_node_that_says_nothing_of_sizes_has_made_the_pod_as_its_spec_is() -> None:
    vmi = a_guest(4)
    vmi.status.pod_room = PodRoom(node="before the migration", vcpus=1, memory="1Gi", reason="ResizeNotServed")
    pod = its_pod(vmi)
    pod.status.container_statuses = []
    assert plan_room(vmi, pod, CONFIG, NOW) == PodRoom(node="n1", vcpus=4, memory="1Gi")


@pytest.mark.parametrize("what", ["moves", "ends", "ended"])
def test_nothing_is_resized_while_the_guest_moves_or_ends(what: str) -> None:
    vmi, pod = a_guest(4), its_pod(a_guest())
    if what == "moves":
        vmi.status.migration_state = MigrationState(migration_uid="m", source_node="n1", target_node="n2")
    elif what == "ends":
        vmi.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    else:
        pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert (plan_resize(vmi, pod, CONFIG), plan_room(vmi, pod, CONFIG, NOW)) == ((), None)


def test_a_controller_that_begins_anew_finds_itself_where_the_one_before_was() -> None:
    """Nothing but the VMI and the Pod is read: each step has the same successor whoever takes it."""
    vmi, pod = a_guest(4), its_pod(a_guest())
    steps: list[Any] = []
    for _ in range(4):
        vmi.status.pod_room = plan_room(vmi, pod, CONFIG, NOW)
        found = plan_resize(vmi, pod, CONFIG)
        steps.append((vmi.status.pod_room, len(found)))
        if found:
            ordered(pod, found[0].body)
        else:
            reported(pod)
    held = PodRoom(node="n1", vcpus=1, memory="1Gi", reason="Resizing")
    given = PodRoom(node="n1", vcpus=4, memory="1Gi")
    assert steps == [(held, 1), (held, 0), (given, 0), (given, 0)]


def test_a_guest_does_not_grow_while_a_pod_waits_for_it_that_was_made_before() -> None:
    vmi = a_guest(4)
    source, target = its_pod(a_guest()), a_target_pod(vmi, "Pending", "")

    def orders(*pods: Pod) -> list[str]:
        actions = plan_vmi(VmiView(vmi, pods), CONFIG, NOW).actions
        written = [each.body.get("status", {}) for each in actions if isinstance(each, PatchVmi)]
        told = ["room" for status in written if "podRoom" in status]
        return told + [type(each).__name__ for each in actions if isinstance(each, ResizePod)]

    assert orders(source) == ["room", "ResizePod"]
    assert orders(source, target) == []
    target.status.phase = "Failed"
    assert orders(source, target) == ["room", "ResizePod"]
