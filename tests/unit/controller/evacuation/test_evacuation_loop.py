"""What wakes the loop of evacuations, and that a guest that is refused keeps no other from leaving."""

from __future__ import annotations

import copy
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.evacuation.claim_exchange import ClaimExchange
from kvedge.controller.evacuation.evacuation_loop import EvacuationLoop, EvacuationSources
from kvedge.controller.evacuation.evacuation_plan import Rules
from kvedge.kube.errors import Forbidden, KubeError, Unavailable
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.types.core import Node
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_pod
from tests.support.clocks import FakeClock
from tests.support.fed_cache import FedCache
from tests.unit.controller.evacuation.test_evacuation_plan import TAINT, a_migration, a_node, a_run, held_by_disks

KEY = Key("", "node-1")


class World:
    """The caches, and a server that takes migrations or refuses them."""

    def __init__(self) -> None:
        self.migrations, self.vmis, self.pods, self.nodes = FedCache(), FedCache(), FedCache(), FedCache()
        self.vms, self.claims = FedCache(), FedCache()
        self.events = MagicMock()
        self.refuse: dict[str, KubeError] = {}
        self.made: list[VirtualMachineInstanceMigration] = []
        self.rules = Rules("kubevirt.io/drain", "None")
        self.exchange = ClaimExchange(self, self.vms, self.claims, self.events)  # type: ignore[arg-type]
        sources: Any = EvacuationSources(
            self,  # type: ignore[arg-type]
            self.migrations,  # type: ignore[arg-type]
            self.vmis,  # type: ignore[arg-type]
            self.pods,  # type: ignore[arg-type]
            self.nodes,  # type: ignore[arg-type]
            self.exchange,
            self.events,
            FakeClock(),
            lambda: self.rules,
        )
        self.loop = EvacuationLoop(sources)

    def create(self, migration: VirtualMachineInstanceMigration) -> VirtualMachineInstanceMigration:
        if (error := self.refuse.get(migration.spec.vmi_name)) is not None:
            raise error
        made = copy.deepcopy(migration)
        made.metadata.name = f"{migration.metadata.generate_name}{len(self.made)}"
        made.metadata.uid, made.metadata.resource_version = f"made-{len(self.made)}", "1000"
        self.made.append(made)
        return made

    def turn(self) -> Again | None:
        return self.loop.reconcile(KEY)

    def told(self) -> list[tuple[str, str]]:
        return [(call.args[2], call.args[3]) for call in self.events.record.call_args_list]

    def is_awake(self) -> bool:
        """Whether there is work, which is forgotten."""
        queue = self.loop.loop.queue
        found = len(queue) > 0
        while len(queue):
            key = queue.take()
            assert key == KEY
            queue.finish(key)
        return found


def named(vmi: VirtualMachineInstance, name: str) -> VirtualMachineInstance:
    vmi.metadata.name, vmi.metadata.uid = name, f"uid-{name}"
    return vmi


@pytest.fixture
def world() -> World:
    world = World()
    world.nodes.feed(a_node())
    world.is_awake()
    return world


def test_each_marked_guest_gets_one_migration_however_late_the_watch_is(world: World) -> None:
    for name in ("a", "b"):
        world.vmis.feed(named(a_run(), name))
    assert world.is_awake()
    assert world.turn() is None
    assert world.turn() is None
    assert [made.spec.vmi_name for made in world.made] == ["a", "b"]
    assert world.told() == [("SuccessfulCreate", f"Created Migration kubevirt-evacuation-{n}") for n in (0, 1)]


def test_a_guest_that_is_refused_keeps_no_other_from_leaving(world: World) -> None:
    world.refuse = {"a": Forbidden(403, "Forbidden", "no other node"), "b": Unavailable(503, "", "busy")}
    for name in ("a", "b", "c"):
        world.vmis.feed(named(a_run(), name))
    with pytest.raises(Forbidden):
        world.turn()
    assert [made.spec.vmi_name for made in world.made] == ["c"]
    # A server that is busy has judged nothing.
    assert [reason for reason, _ in world.told()] == ["FailedCreate", "SuccessfulCreate"]
    assert "no other node" in world.told()[0][1]
    world.refuse.clear()
    world.turn()
    assert [made.spec.vmi_name for made in world.made] == ["c", "a", "b"]


def test_a_user_is_told_once_of_each_failure_that_is_waited_for(world: World) -> None:
    world.vmis.feed(a_run())
    failed = a_migration("Failed", 0)
    failed.metadata.namespace, failed.spec.vmi_name = "default", "web"
    moment = "2026-05-01T00:00:00Z"
    failed.metadata.creation_timestamp = moment
    failed.status.phase_transition_timestamps[0].phase_transition_timestamp = moment
    world.migrations.feed(failed)
    assert [world.turn(), world.turn()] == [Again(20.0), Again(20.0)]
    assert world.told() == [("MigrationBackoff", "backoff migrating vmi default/web")]
    assert world.made == []


def test_a_node_wakes_the_loop_by_its_taints_alone(world: World) -> None:
    world.nodes.feed(a_node())
    assert not world.is_awake()
    world.nodes.feed(a_node(TAINT))
    assert world.is_awake()


def test_guests_wake_the_loop_when_they_are_to_leave_and_something_of_it_changes(world: World) -> None:
    world.vmis.feed(a_run(evacuationNodeName=""))
    assert not world.is_awake()
    world.vmis.feed(a_run())
    assert world.is_awake()
    world.vmis.feed(a_run(qosClass="Burstable"))
    assert not world.is_awake()
    world.vmis.feed(a_run("LiveMigrate", []))
    assert world.is_awake()
    world.vmis.feed(a_run(nodeName="node-2"))
    assert not world.is_awake(), "there is no such node"
    world.vmis.feed(a_run(nodeName="node-2"), gone=True)
    assert not world.is_awake()


def test_the_end_of_a_migration_and_of_its_pod_wake_the_loop(world: World) -> None:
    vmi = a_run()
    world.vmis.feed(vmi)
    world.is_awake()
    for phase, wakes in (("Running", False), ("Failed", True)):
        migration = a_migration(phase, 1, namespace="default")
        migration.spec.vmi_name = "web"
        world.migrations.feed(migration)
        assert world.is_awake() == wakes
    pod = a_pod(vmi, "Running", "node-1")
    world.pods.feed(pod)
    assert not world.is_awake()
    world.pods.feed(a_pod(vmi, "Succeeded", "node-1"))
    assert world.is_awake()


def test_a_guest_between_two_pods_waits_for_the_end_of_one(world: World) -> None:
    vmi = a_run()
    world.vmis.feed(vmi)
    first, second = a_pod(vmi, "Running", "node-1"), a_pod(vmi, "Running", "node-2")
    second.metadata.name, second.metadata.uid = "second", "second"
    world.pods.feed(first)
    world.pods.feed(second)
    world.turn()
    assert world.made == []
    ended = a_pod(vmi, "Succeeded", "node-2")
    ended.metadata.name, ended.metadata.uid = "second", "second"
    world.pods.feed(ended)
    world.turn()
    assert len(world.made) == 1


def test_another_configuration_looks_at_all_nodes(world: World) -> None:
    world.loop.note_rules_change()
    assert world.is_awake()


def test_no_claims_are_made_for_a_guest_that_has_no_other_node_to_go_to(world: World) -> None:
    begun: list[str] = []
    world.exchange.begin = lambda vmi: begun.append(vmi.metadata.name)  # type: ignore[method-assign,assignment]
    world.vmis.feed(held_by_disks("web"))
    assert world.turn() is not None
    assert begun == []
    other = a_node()
    other.metadata.name = "node-2"
    world.nodes.feed(other)
    world.turn()
    assert begun == ["web"]


def test_a_node_that_is_gone_empties_itself(world: World) -> None:
    node: Node = a_node(TAINT)
    world.vmis.feed(a_run())
    world.nodes.feed(node, gone=True)
    assert world.turn() is None
    assert world.made == []
