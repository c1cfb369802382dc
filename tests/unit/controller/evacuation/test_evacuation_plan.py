"""Which guests of a node get a migration, and when the next one after a failure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvedge.controller.evacuation.evacuation_plan import (
    EvacuationPlan,
    Rules,
    make_migration,
    plan_evacuation,
)
from kvedge.controller.guest_moves import Guest
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.core import Node, NodeSpec
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import vmi_with

NOW = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)
RULES = Rules("kubevirt.io/drain", "None")
CAN = [{"type": "LiveMigratable", "status": "True"}]
CANNOT = [{"type": "LiveMigratable", "status": "False"}]
TAINT = {"key": "kubevirt.io/drain", "effect": "NoSchedule"}


def a_node(*taints: dict[str, str]) -> Node:
    return Node(metadata=ObjectMeta(name="node-1"), spec=NodeSpec(taints=list(taints)))


def a_run(strategy: str | None = "LiveMigrate", conditions: Any = CAN, /, **status: Any) -> VirtualMachineInstance:
    spec = {} if strategy is None else {"evictionStrategy": strategy}
    known = {"phase": "Running", "nodeName": "node-1", "evacuationNodeName": "node-1", "conditions": conditions}
    return vmi_with(spec, {**known, **status}, name="web", uid="run-1")


def a_migration(phase: str, seconds_ago: float, ours: bool = True, **metadata: Any) -> VirtualMachineInstanceMigration:
    moment = rfc3339(NOW - timedelta(seconds=seconds_ago))
    known = {"uid": f"m{seconds_ago:.0f}", "name": "m", "creationTimestamp": moment, **metadata}
    if ours:
        known["annotations"] = {"kubevirt.io/evacuationMigration": "node-1"}
    times = [{"phase": phase, "phaseTransitionTimestamp": moment}]
    spec = {"vmiName": "web", **({"priority": "system-critical"} if ours else {})}
    document = {"metadata": known, "spec": spec, "status": {"phase": phase, "phaseTransitionTimestamps": times}}
    return decode(VirtualMachineInstanceMigration, document)


def planned(
    vmi: VirtualMachineInstance,
    *migrations: VirtualMachineInstanceMigration,
    node: Node | None = None,
    pods: int = 1,
    rules: Rules = RULES,
) -> EvacuationPlan:
    return plan_evacuation(node or a_node(), [Guest(vmi, migrations, pods)], rules, NOW)


def moves(vmi: VirtualMachineInstance, *migrations: VirtualMachineInstanceMigration, **more: Any) -> bool:
    return bool(planned(vmi, *migrations, **more).move)


@pytest.mark.parametrize(
    ("strategy", "is_moved"),
    [("LiveMigrate", True), ("LiveMigrateIfPossible", True), ("None", False), ("External", False)],
)
def test_a_marked_guest_that_can_moves_as_its_strategy_says(strategy: str, is_moved: bool) -> None:
    assert moves(a_run(strategy)) == is_moved
    assert moves(a_run(None), rules=Rules("kubevirt.io/drain", strategy)) == is_moved
    assert moves(a_run(strategy, evacuationNodeName=""), node=a_node(TAINT)) == is_moved
    assert not moves(a_run(strategy, CANNOT))
    assert not moves(a_run(strategy, []))


def test_a_guest_that_nobody_wants_away_stays() -> None:
    assert not moves(a_run(evacuationNodeName=""))
    # It has left that node already.
    assert not moves(a_run(evacuationNodeName="node-0"))


@pytest.mark.parametrize("taint", [{**TAINT, "effect": "NoExecute"}, {**TAINT, "key": "other"}])
def test_other_taints_move_nobody(taint: dict[str, str]) -> None:
    assert not moves(a_run(evacuationNodeName=""), node=a_node(taint))


def test_the_key_of_the_taint_is_the_kubevirt_objects() -> None:
    vmi = a_run(evacuationNodeName="")
    assert moves(vmi, node=a_node({**TAINT, "key": "mine"}), rules=Rules("mine", "None"))
    assert not moves(vmi, node=a_node(TAINT), rules=Rules("mine", "None"))


def test_a_guest_that_ends_is_left_alone() -> None:
    assert not moves(a_run(phase="Succeeded"))
    deleted = a_run()
    deleted.metadata.deletion_timestamp = rfc3339(NOW)
    assert not moves(deleted)


@pytest.mark.parametrize("phase", ["", "Pending", "Scheduling", "PreparingTarget", "Running"])
def test_one_migration_at_a_time_whoever_has_asked_for_it(phase: str) -> None:
    assert not moves(a_run(), a_migration(phase, 5, ours=False))
    assert planned(a_run(), a_migration(phase, 5)) == EvacuationPlan()


def test_a_guest_with_an_open_hand_over_or_two_pods_waits() -> None:
    assert not moves(a_run(migrationState={"migrationUid": "m"}))
    assert moves(a_run(migrationState={"migrationUid": "m", "failed": True, "completed": True}))
    assert not moves(a_run(), pods=2)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 20), (2, 40), (3, 80), (4, 160), (5, 320), (6, 320)])
def test_each_failure_in_a_row_doubles_the_wait(failures: int, seconds: int) -> None:
    before = [a_migration("Failed", 1000 + 10 * number) for number in range(failures - 1)]
    plan = planned(a_run(), *before, a_migration("Failed", 15))
    assert (plan.move, plan.again_after) == ((), seconds - 15)
    assert plan.wait[0].last == "m15"
    assert moves(a_run(), *before, a_migration("Failed", seconds))


def test_a_success_ends_the_row_and_what_others_asked_for_is_no_part_of_it() -> None:
    row = [a_migration("Failed", 500), a_migration("Succeeded", 100), a_migration("Failed", 5)]
    assert planned(a_run(), *row).again_after == 15
    assert moves(a_run(), a_migration("Failed", 5, ours=False))
    assert moves(a_run(), a_migration("Failed", 5, deletionTimestamp=rfc3339(NOW)))


def test_a_users_migration_that_says_to_be_an_evacuation_neither_holds_one_up_nor_lets_one_by() -> None:
    for phase in ("Failed", "Succeeded"):
        forged = a_migration(phase, 1)
        forged.spec.priority = None
        assert moves(a_run(), forged)
        assert not moves(a_run(), forged, a_migration("Failed", 2))


def test_a_clock_that_was_put_back_has_nobody_wait_longer() -> None:
    assert planned(a_run(), a_migration("Failed", -100_000)).again_after == 20


def test_a_failure_that_does_not_say_when_does_not_hold_the_guest_for_ever() -> None:
    broken = a_migration("Failed", 1)
    broken.status.phase_transition_timestamps[0].phase_transition_timestamp = "yesterday"
    assert moves(a_run(), broken)


def test_the_migration_is_kubevirts() -> None:
    vmi = a_run()
    assert encode(make_migration(vmi, "node-1")) == {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {
            "generateName": "kubevirt-evacuation-",
            "namespace": "default",
            "annotations": {"kubevirt.io/evacuationMigration": "node-1"},
        },
        "spec": {"vmiName": "web", "priority": "system-critical"},
        "status": {},
    }
    vmi.metadata.annotations["kubevirt.io/eviction-source"] = "descheduler"
    assert make_migration(vmi, "node-1").spec.priority == "system-maintenance"
    # Who asked for an earlier eviction says nothing of a node that is emptied by its taint.
    vmi.status.evacuation_node_name = ""
    assert make_migration(vmi, "node-1").spec.priority == "system-critical"


def held_by_disks(name: str, strategy: str = "LiveMigrate", /, **status: Any) -> VirtualMachineInstance:
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name, "uid": "v", "controller": True}
    conditions = [
        {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"},
        {"type": "StorageLiveMigratable", "status": "True"},
    ]
    vmi = a_run(strategy, conditions, **status)
    vmi.metadata.name, vmi.metadata.uid = name, f"uid-{name}"
    vmi.metadata.owner_references = [decode(OwnerReference, owner)]
    return vmi


def exchanged(*guests: Guest, rules: Rules = RULES) -> list[str]:
    return [vmi.metadata.name for vmi in plan_evacuation(a_node(), guests, rules, NOW).exchange]


def test_a_guest_that_only_its_disks_keep_gets_claims_to_move_to() -> None:
    vmi = held_by_disks("web")
    assert exchanged(Guest(vmi, (), 1)) == ["web"]
    plan = plan_evacuation(a_node(), [Guest(vmi, (), 1)], RULES, NOW)
    # What keeps its VM from being changed may be over by then.
    assert (plan.move, plan.again_after) == ((), 10.0)
    assert exchanged(Guest(held_by_disks("web", evacuationNodeName=""), (), 1)) == []
    assert exchanged(Guest(vmi, (), 2)) == []
    assert exchanged(Guest(vmi, [a_migration("Running", 1)], 1)) == []
    assert exchanged(Guest(a_run("LiveMigrate", CANNOT), (), 1)) == []


def test_a_guest_that_may_be_shut_down_takes_its_disks_along_only_if_its_user_says_so() -> None:
    vmi = held_by_disks("web", "LiveMigrateIfPossible")
    assert exchanged(Guest(vmi, (), 1)) == []
    vmi.metadata.annotations["kvedge.io/evacuate-with-disks"] = "true"
    assert exchanged(Guest(vmi, (), 1)) == ["web"]
    none = held_by_disks("web", "None")
    none.metadata.annotations["kvedge.io/evacuate-with-disks"] = "true"
    assert exchanged(Guest(none, (), 1)) == []


def test_no_more_guests_leave_with_their_disks_at_a_time_than_may_leave_a_node() -> None:
    waiting = [Guest(held_by_disks(name), (), 1) for name in ("a", "b", "c")]
    assert exchanged(*waiting) == ["a", "b"]
    assert plan_evacuation(a_node(), waiting, RULES, NOW).again_after == 10.0
    assert exchanged(*waiting, Guest(held_by_disks("d"), (), 1, exchange="moves")) == ["a"]
    # One whose claims only a restart brings takes no place, and hears why it stays.
    assert exchanged(*waiting, Guest(held_by_disks("d"), (), 1, exchange="refused")) == ["a", "b", "d"]
    assert exchanged(*waiting, rules=Rules("kubevirt.io/drain", "None", 1)) == ["a"]


def test_a_guest_whose_disks_move_already_gets_no_other_migration() -> None:
    assert not moves(a_run("LiveMigrate", [*CAN, {"type": "VolumesChange", "status": "True"}]))
