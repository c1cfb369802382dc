"""Each rule of the table is raised and cleared by what is seen of objects, over a time that the test says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvedge.controller.alarms.alarm_sightings import World, remember, see_all
from kvedge.resources.alarms.alarm_rules import RULES
from kvedge.resources.alarms.alarm_state import Alarm, State, next_turn
from kvedge.resources.alarms.node_health import HOST_HEALTH, NodeHealth, health_text
from kvedge.resources.codec import decode
from kvedge.resources.types.core import Node
from kvedge.resources.types.protection.backup_schedules import BackupSchedule
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.values import replace

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
IO_ERROR = {"type": "Paused", "status": "True", "reason": "PausedIOError", "message": "vda: no space"}
AGENT = {"type": "AgentConnected", "status": "True"}
OWNER = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web", "uid": "vm1", "controller": True}


def a_node(**health: Any) -> Node:
    annotations = {HOST_HEALTH: health_text(NodeHealth(**health))}
    return decode(Node, {"metadata": {"name": "edge-1", "uid": "n1", "annotations": annotations}})


def a_vmi(*conditions: Any, phase: str = "Running", owned: bool = True, **metadata: Any) -> VirtualMachineInstance:
    owners = [OWNER] if owned else []
    meta = {"name": "web", "namespace": "shop", "uid": "i1", "ownerReferences": owners, **metadata}
    status = {"phase": phase, "nodeName": "edge-1", "conditions": list(conditions)}
    return decode(VirtualMachineInstance, {"metadata": meta, "status": status})


def a_vm(failures: int) -> VirtualMachine:
    status = {"startFailure": {"consecutiveFailCount": failures}} if failures else {}
    return decode(VirtualMachine, {"metadata": {"name": "web", "namespace": "shop", "uid": "vm1"}, "status": status})


def a_claim() -> PersistentVolumeClaim:
    meta = {"name": "data", "namespace": "shop", "uid": "c1"}
    return decode(PersistentVolumeClaim, {"metadata": meta, "spec": {"volumeName": "pvc-7"}})


def a_schedule(status: str) -> BackupSchedule:
    found = {"type": "Ready", "status": status, "reason": "Late", "message": "the last one is 3 days old"}
    meta = {"name": "nightly", "namespace": "shop", "uid": "s1"}
    return decode(BackupSchedule, {"metadata": meta, "status": {"conditions": [found]}})


@dataclass(frozen=True)
class Case:
    """What is bad and what is well again, after how many seconds each, and whom the alarm is about."""

    bad: World
    well: World
    about: str
    words: str
    # Something that was before.
    before: World | None = None


def of_node(bad: dict[str, Any], well: dict[str, Any], words: str, before: dict[str, Any] | None = None) -> Case:
    worlds = [World(NOON, nodes=[a_node(**health)]) for health in (bad, well)]
    return Case(*worlds, "Node edge-1", words, World(NOON, nodes=[a_node(**before)]) if before else None)


def in_days(days: int) -> str:
    return (NOON + timedelta(days=days)).isoformat()


CASES: dict[str, Case] = {
    "HostDiskFilling": of_node({"disks": {"/var": 88}}, {"disks": {"/var": 70}}, "/var of node edge-1 is 88 % full"),
    "HostDiskFull": of_node({"disks": {"/var": 97}}, {"disks": {"/var": 70}}, "97 %"),
    "ClaimFilling": Case(
        World(NOON, nodes=[a_node(volumes={"pvc-7": 93, "of-nobody": 99})], claims=[a_claim()]),
        World(NOON, nodes=[a_node(volumes={"pvc-7": 60})], claims=[a_claim()]),
        "PersistentVolumeClaim shop/data",
        "93 %",
    ),
    "GuestStoppedByIOError": Case(
        World(NOON, vmis=[a_vmi(IO_ERROR)]), World(NOON, vmis=[a_vmi()]), "VirtualMachine shop/web", "vda: no space"
    ),
    "GuestAgentGone": Case(
        World(NOON, vmis=[a_vmi()]),
        World(NOON, vmis=[a_vmi(AGENT)]),
        "VirtualMachine shop/web",
        "agent",
        World(NOON, vmis=[a_vmi(AGENT)]),
    ),
    "VMFlapping": Case(
        World(NOON, vms=[a_vm(3)]), World(NOON, vms=[a_vm(0)]), "VirtualMachine shop/web", "3 runs in a row"
    ),
    "CertificateEnding": of_node(
        {"certificate_end": in_days(20)}, {"certificate_end": in_days(365)}, "ends at 2026-05"
    ),
    "BackupMissed": Case(
        World(NOON, protection=[a_schedule("False")]),
        World(NOON, protection=[a_schedule("True")]),
        "BackupSchedule shop/nightly",
        "3 days old",
    ),
    "NodeLost": Case(
        World(NOON, nodes=[a_node()], silent_nodes={"edge-1": "its kubelet stopped posting"}),
        World(NOON, nodes=[a_node()], silent_nodes={"edge-1": ""}),
        "Node edge-1",
        "stopped posting",
    ),
    "ClockOff": Case(
        World(NOON, nodes=[a_node()], skews={"edge-1": -90.0}),
        World(NOON, nodes=[a_node()], skews={"edge-1": 0.4}),
        "Node edge-1",
        "90 s behind",
    ),
    "ClockUnsynchronized": of_node({"clock": False}, {"clock": True}, "nothing keeps"),
    "HostMemoryShort": of_node({"memory": 4}, {"memory": 30}, "4 % of its memory"),
    "KvmLost": of_node({"kvm": "no"}, {"kvm": "yes"}, "has had KVM", before={"kvm": "yes"}),
}


class Box:
    """What is kept from look to look."""

    def __init__(self) -> None:
        self.now = NOON
        self.kept: tuple[Alarm, ...] = ()
        self.memory: frozenset[str] = frozenset()

    def look(self, world: World, after: float = 0.0) -> list[Alarm]:
        self.now += timedelta(seconds=after)
        world = replace(world, memory=self.memory)
        self.kept = next_turn(self.kept, see_all(world), ("mail",), self.now).alarms
        self.memory = remember(world)
        return [each for each in self.kept if each.state == State.FIRING]


def test_each_rule_has_its_case() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_raised_when_it_is_bad_for_long_enough_and_cleared_when_it_is_well(name: str) -> None:
    rule, case, box = RULES[name], CASES[name], Box()
    box.look(case.before or case.well)
    assert box.look(case.well, 3600) == []
    box.look(case.bad)
    if rule.hold:
        assert [each for each in box.look(case.bad, rule.hold - 1) if each.rule == name] == []
    raised = [each for each in box.look(case.bad, 1) if each.rule == name]
    assert [str(each.target) for each in raised] == [case.about]
    assert case.words in raised[0].message
    box.look(case.well, 1)
    if rule.rest:
        assert name in [each.rule for each in box.look(case.well, rule.rest - 1)]
    assert box.look(case.well, 1) == []


def test_one_disk_that_is_full_and_another_that_is_not_are_two_things() -> None:
    box = Box()
    found = box.look(World(NOON, nodes=[a_node(disks={"/": 20, "/var": 99, "/mnt": 98})]))
    assert sorted(each.part for each in found if each.rule == "HostDiskFull") == ["/mnt", "/var"]


def test_a_guest_without_a_vm_has_its_alarm_itself() -> None:
    [found] = Box().look(World(NOON, vmis=[a_vmi(IO_ERROR, owned=False)]))
    assert str(found.target) == "VirtualMachineInstance shop/web"


@pytest.mark.parametrize(
    "world",
    [
        World(NOON, vmis=[a_vmi(phase="Succeeded")]),
        World(NOON, vmis=[a_vmi({"type": "Paused", "status": "True", "reason": "PausedByUser"})]),
        World(NOON, vmis=[a_vmi()], silent_nodes={"edge-1": "gone"}),
        World(NOON, vmis=[a_vmi(deletionTimestamp="2026-05-01T12:00:00Z")]),
        World(NOON, vmis=[a_vmi(uid="another run")]),
    ],
    ids=["ended", "paused", "on a silent node", "about to stop", "a new run"],
)
def test_an_agent_is_not_missed(world: World) -> None:
    box = Box()
    box.look(World(NOON, vmis=[a_vmi(AGENT)]))
    box.look(world)
    assert box.look(world, 9999) == []


def test_emulation_that_is_wanted_is_no_loss_and_is_forgotten() -> None:
    box = Box()
    for kvm in ("yes", "off", "no"):
        assert box.look(World(NOON, nodes=[a_node(kvm=kvm)]), 60) == []
    assert box.memory == frozenset()


def test_nothing_is_remembered_of_what_has_gone() -> None:
    box = Box()
    box.look(World(NOON, nodes=[a_node(kvm="yes")], vmis=[a_vmi(AGENT)]))
    assert box.memory == {"kvm/edge-1", "agent/i1"}
    box.look(World(NOON))
    assert box.memory == frozenset()


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"memory":"much"}', "x" * 10000], ids=str)
def test_a_node_that_says_nothing_that_can_be_read_has_no_alarm(text: str) -> None:
    node = decode(Node, {"metadata": {"name": "edge-1", "annotations": {HOST_HEALTH: text}}})
    assert Box().look(World(NOON, nodes=[node])) == []


def test_a_node_is_believed_a_bounded_number_of_disks() -> None:
    found = Box().look(World(NOON, nodes=[a_node(disks={f"/{number:03}": 99 for number in range(100)})]))
    assert 0 < len([each for each in found if each.rule == "HostDiskFull"]) <= 32
