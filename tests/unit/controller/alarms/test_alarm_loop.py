"""The checker: what it writes down, what it shows, and what it tells of over a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from kvedge.controller.alarms.alarm_board import AlarmBoard
from kvedge.controller.alarms.alarm_loop import CLEARED, AlarmLoop, AlarmSources
from kvedge.controller.node.node_plan import NodeState
from kvedge.kube.errors import Conflict, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.work_queue import Key
from kvedge.resources.alarms.alarm_record import read_record
from kvedge.resources.alarms.node_health import HOST_HEALTH, NodeHealth, health_text
from kvedge.resources.codec import decode, encode
from kvedge.resources.names import HEARTBEAT
from kvedge.resources.types.core import ConfigMap, Node
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import rfc3339
from tests.support.clocks import FakeClock

ALL = Key("", "")


class PlayedInformer:
    """Objects that the test puts in."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)
        self.callbacks: list[Callable[[Any, Any], None]] = []

    def list(self) -> list[Any]:
        return self.items

    def wait_synced(self, timeout: float) -> bool:
        return True

    def on_change(self, callback: Callable[[Any, Any], None]) -> None:
        self.callbacks.append(callback)

    def observe(self, item: Any) -> None:
        self.items = [item if each.metadata.name == item.metadata.name else each for each in self.items]

    def change(self, item: Any) -> None:
        [old] = self.items
        self.items = [item]
        for callback in self.callbacks:
            callback(old, item)


class World:
    """One node, one VM, and what the server has of alarms."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.nodes = PlayedInformer(self.a_node())
        vm = {"metadata": {"name": "web", "namespace": "shop", "uid": "vm1", "resourceVersion": "7"}}
        self.vms = PlayedInformer(decode(VirtualMachine, vm))
        self.config: ConfigMap | None = None
        self.version = 0
        self.refuse: type[Conflict] | None = None
        self.writes: list[str] = []
        self.events: list[tuple[str, str, str]] = []
        self.board = AlarmBoard()

    def a_node(self, fill: int = 10, beat: str = "2026-05-01T00:00:00Z") -> Node:
        annotations = {HOST_HEALTH: health_text(NodeHealth(disks={"/var": fill})), HEARTBEAT: beat}
        return decode(Node, {"metadata": {"name": "edge-1", "uid": "n1", "annotations": annotations}})

    def fill(self, percent: int) -> None:
        node = self.a_node(percent)
        node.status.conditions = self.nodes.items[0].status.conditions
        self.nodes.items = [node]

    def loop(self, *receivers: str) -> AlarmLoop:
        node_loop = MagicMock(state=lambda name: NodeState(name))
        client, events = cast(KubeClient, self), MagicMock(record=self.record)
        others = (PlayedInformer(), cast(Any, self.nodes), PlayedInformer())
        sources = AlarmSources(client, cast(Any, self.vms), *cast(Any, others), node_loop, events, self.clock)
        return AlarmLoop(sources, self.board, lambda: receivers)

    def get(self, kind: Any, namespace: str, name: str) -> ConfigMap:
        if self.config is None:
            raise NotFound(404, "NotFound", "none")
        return self.config

    def list(self, kind: Any) -> list[Any]:
        raise NotFound(404, "NotFound", "an older API")

    def create(self, config: ConfigMap) -> ConfigMap:
        self.writes.append("create")
        self.config = config
        config.metadata.resource_version = "1"
        return config

    def patch(self, kind: Any, namespace: str, name: str, patch: Any, subresource: str = "") -> Any:
        self.writes.append(f"{kind.KIND.kind} {name}")
        if self.refuse is not None:
            raise self.refuse(409, "Conflict", "changed meanwhile")
        if kind is ConfigMap:
            assert self.config is not None
            self.config.data = patch.body["data"]
            return self.config
        [item] = (self.nodes if kind is Node else self.vms).items
        document = encode(item)
        document.setdefault("status", {}).update(patch.body["status"])
        return decode(kind, document)

    def record(self, item: Any, type_: str, reason: str, message: str) -> None:
        self.events.append((type_, reason, item.metadata.name))


def test_an_alarm_is_written_down_shown_and_told_of_by_an_event_and_so_is_its_end() -> None:
    world = World()
    loop = world.loop()
    loop.reconcile(ALL)
    assert (world.writes, world.events) == (["create"], [])
    world.fill(97)
    loop.reconcile(ALL)
    assert world.events == [("Warning", "HostDiskFull", "edge-1")]
    [shown] = world.nodes.items[0].status.conditions
    assert (shown["type"], shown["status"], shown["reason"]) == ("Alarm", "True", "HostDiskFull")
    written = len(world.writes)
    loop.reconcile(ALL)
    assert len(world.writes) == written
    world.fill(50)
    for _ in range(2):
        loop.reconcile(ALL)
        world.clock.seconds += 301
    loop.reconcile(ALL)
    assert world.events[1:] == [("Normal", CLEARED, "edge-1")]
    assert world.nodes.items[0].status.conditions[0]["status"] == "False"


def test_after_a_restart_nothing_is_told_again() -> None:
    world = World()
    world.fill(97)
    loop = world.loop("mail")
    loop.reconcile(ALL)
    world.board.mark_told("mail", world.board.news_for("mail"))
    loop.reconcile(ALL)
    world.board = AlarmBoard()
    world.loop("mail").reconcile(ALL)
    assert world.board.news_for("mail") == []
    assert len(world.events) == 1


def test_nothing_is_told_before_it_is_written_down() -> None:
    world = World()
    loop = world.loop("mail")
    loop.reconcile(ALL)
    world.fill(97)
    world.refuse = Conflict
    assert loop.reconcile(ALL).after <= 1
    assert (world.events, world.board.news_for("mail")) == ([], [])
    world.refuse = None
    loop.reconcile(ALL)
    assert len(world.events) == 1
    assert read_record(world.config).firing[0].rule == "HostDiskFull"


def test_a_vm_shows_its_alarm_beside_its_other_conditions() -> None:
    world = World()
    [vm] = world.vms.items
    status = {"startFailure": {"consecutiveFailCount": 4}, "conditions": [{"type": "Ready", "status": "False"}]}
    world.vms.items = [decode(VirtualMachine, {**encode(vm), "status": status})]
    loop = world.loop()
    loop.reconcile(ALL)
    [vm] = world.vms.items
    assert [(each.type, each.reason) for each in vm.status.conditions] == [("Ready", ""), ("Alarm", "VMFlapping")]


@pytest.mark.parametrize(("ahead", "raised"), [(0, []), (120, ["ClockOff"]), (-120, ["ClockOff"])])
def test_a_clock_is_judged_by_heartbeats_that_come_while_somebody_looks(ahead: int, raised: list[str]) -> None:
    world = World()
    loop = world.loop()
    loop.reconcile(ALL)
    for _ in range(3):
        world.clock.seconds += 100
        beat = world.clock.now().timestamp() + ahead
        world.nodes.change(world.a_node(10, rfc3339(world.clock.now().fromtimestamp(beat).astimezone())))
        loop.reconcile(ALL)
    assert [each.rule for each in read_record(world.config).firing] == raised
