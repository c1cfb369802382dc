"""Which guests move for an update, which are evicted, what is given up, and when updates stop by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvedge.controller.guest_moves import Guest
from kvedge.controller.workloads.update_plan import MOST_FAILURES, PAUSE_SECONDS, make_migration, plan_updates
from kvedge.controller.workloads.update_view import Evictions, Rules, UpdatePlan
from kvedge.resources.codec import decode
from kvedge.resources.configuration.configuration import WorkloadUpdates
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import vmi_with
from tests.support.values import replace

NOW = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)
OLD, NEW = "1.0.0", "1.1.0"
CAN = {"type": "LiveMigratable", "status": "True"}
CANNOT = {"type": "LiveMigratable", "status": "False", "message": "PVC data is not shared"}
CHANGES = {"type": "VolumesChange", "status": "True"}
BOTH = WorkloadUpdates(live_migrate=True, evict=True)
RULES = Rules(BOTH, 5, NEW, {"node-1": NEW, "node-2": NEW})
MOVES = replace(RULES, updates=WorkloadUpdates(live_migrate=True))


def a_guest(name: str = "web", *conditions: dict[str, str], version: str = OLD, **more: Any) -> Guest:
    status = {"phase": "Running", "nodeName": "node-1", "conditions": list(conditions or (CAN,))}
    vmi = vmi_with({}, {**status, **more.pop("status", {})}, name=name, uid=f"uid-{name}")
    vmi.metadata.annotations["kvedge.io/launcher-version"] = version
    vmi.metadata.labels |= more.pop("labels", {"kubevirt.io/outdatedLauncherImage": ""} if version == OLD else {})
    vmi.metadata.annotations |= more.pop("annotations", {})
    return Guest(vmi, more.pop("migrations", ()), more.pop("pods", 1), more.pop("is_ending", False))


def a_migration(
    phase: str, seconds_ago: float, vmi: str = "web", *, ours: bool = True, disks: bool = False, **metadata: Any
) -> VirtualMachineInstanceMigration:
    moment = rfc3339(NOW - timedelta(seconds=seconds_ago))
    known = {"uid": f"{vmi}-{seconds_ago:g}", "name": "m", "namespace": "default", "creationTimestamp": moment}
    if ours:
        known["annotations"] = {"kubevirt.io/workloadUpdateMigration": ""}  # type: ignore[assignment]
    if disks:
        known["labels"] = {"kubevirt.io/volume-update-migration": vmi}  # type: ignore[assignment]
    times = [{"phase": phase, "phaseTransitionTimestamp": moment}]
    spec = {"vmiName": vmi, **({"priority": "system-critical"} if ours else {})}
    status = {"phase": phase, "phaseTransitionTimestamps": times}
    return decode(VirtualMachineInstanceMigration, {"metadata": {**known, **metadata}, "spec": spec, "status": status})


def planned(*guests: Guest, rules: Rules = RULES, evictions: Evictions = Evictions()) -> UpdatePlan:  # noqa: B008
    return plan_updates(guests, rules, evictions, NOW)


def names(vmis: tuple[VirtualMachineInstance, ...]) -> list[str]:
    return [vmi.metadata.name for vmi in vmis]


def test_a_guest_in_an_older_launcher_moves_and_one_in_a_present_one_stays() -> None:
    plan = planned(a_guest("old"), a_guest("new", version=NEW), a_guest("unknown", version=""))
    assert (names(plan.move), plan.evict, plan.outdated.count) == (["old"], (), 1)
    (vmi,) = plan.move
    made = make_migration(vmi)
    assert made.metadata.annotations == {"kubevirt.io/workloadUpdateMigration": ""}
    assert (made.spec.vmi_name, made.spec.priority, made.metadata.labels) == ("old", "system-critical", {})


@pytest.mark.parametrize(
    "guest",
    [
        pytest.param(a_guest(status={"phase": "Scheduled"}), id="does not run yet"),
        pytest.param(a_guest(status={"phase": "Succeeded"}), id="has ended"),
        pytest.param(a_guest(migrations=[a_migration("Pending", 5, ours=False)]), id="a user moves it"),
        pytest.param(a_guest(pods=2), id="something of an earlier migration is left"),
        pytest.param(a_guest(status={"migrationState": {"migrationUid": "m"}}), id="is handed over"),
        pytest.param(a_guest(annotations={"kubevirt.io/workloadUpdateMigrationAbortion": ""}), id="is not to move"),
    ],
)
def test_a_guest_that_is_not_free_is_left_alone(guest: Guest) -> None:
    plan = planned(guest)
    assert (plan.move, plan.exchange, plan.evict) == ((), (), ())


def test_no_more_guests_move_than_there_are_places() -> None:
    guests = [a_guest(f"vm-{number}") for number in range(9)]
    assert len(planned(*guests).move) == 5
    busy = a_guest("busy", version=NEW, migrations=[a_migration("Running", 5, "busy", ours=False)])
    pending = a_guest("pending", migrations=[a_migration("Pending", 5, "pending")])
    # A user's migration that has not begun takes no place: its guest may never run.
    waits = a_guest("waits", version=NEW, migrations=[a_migration("Pending", 5, "waits", ours=False)])
    assert len(planned(*guests, busy, pending, waits).move) == 3


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(replace(RULES, versions={"node-1": NEW, "node-2": OLD}), id="a node of another version"),
        pytest.param(replace(RULES, versions={"node-1": NEW, "node-2": ""}), id="a node that tells none"),
        pytest.param(replace(RULES, is_deployed=False), id="not deployed"),
        pytest.param(replace(RULES, updates=WorkloadUpdates()), id="no method"),
    ],
)
def test_nothing_is_updated_before_the_whole_control_plane_is_and_somebody_wants_it(rules: Rules) -> None:
    plan = planned(a_guest("moves"), a_guest("stuck", CANNOT), rules=rules)
    assert (plan.move, plan.evict, plan.outdated.count) == ((), (), 2)


def test_those_that_cannot_move_are_evicted_in_batches() -> None:
    guests = [a_guest(f"vm-{number}", CANNOT) for number in range(4)]
    rules = replace(RULES, updates=replace(BOTH, batch_size=2))
    assert names(planned(*guests, rules=rules).evict) == ["vm-0", "vm-1"]
    # One that was refused has others go first.
    tried = Evictions(0.0, {"uid-vm-0": 5.0, "uid-vm-1": 5.0})
    assert names(planned(*guests, rules=rules, evictions=tried).evict) == ["vm-2", "vm-3"]
    later = planned(*guests, rules=rules, evictions=Evictions(12.0, {}))
    assert (later.evict, later.again_after) == ((), 12.0)
    assert planned(*guests, rules=MOVES).evict == ()
    assert planned(*guests, rules=replace(RULES, updates=replace(BOTH, batch_size=0))).evict == ()


def test_what_leaves_already_is_not_evicted_again() -> None:
    ending = a_guest("a", CANNOT, is_ending=True)
    marked = a_guest("b", CANNOT, status={"evacuationNodeName": "node-1"})
    assert planned(ending, marked).evict == ()


def test_a_guest_whose_disks_are_to_move_is_not_evicted_while_it_cannot() -> None:
    assert names(planned(a_guest("moves", CANNOT, CHANGES), a_guest("other", CANNOT)).evict) == ["other"]


def test_a_guest_that_could_move_is_evicted_where_moving_is_not_allowed_or_impossible() -> None:
    only_evict = replace(RULES, updates=WorkloadUpdates(evict=True))
    assert names(planned(a_guest(), rules=only_evict).evict) == ["web"]
    one_node = replace(RULES, nodes=1, versions={"node-1": NEW})
    plan = planned(a_guest(), rules=one_node)
    assert (plan.move, names(plan.evict)) == ((), ["web"])
    assert planned(a_guest(), rules=replace(one_node, updates=MOVES.updates)).evict == ()


def test_a_failure_has_its_own_guest_wait_and_no_other() -> None:
    failed = a_guest("a", migrations=[a_migration("Failed", 5, "a")])
    plan = planned(failed, a_guest("b"))
    assert (names(plan.move), [wait.vmi.metadata.name for wait in plan.wait], plan.again_after) == (["b"], ["a"], 15)


def failures(*ages: float) -> list[Guest]:
    return [a_guest(f"f{age:g}", migrations=[a_migration("Failed", age, f"f{age:g}")]) for age in ages]


def test_after_failures_of_several_guests_in_a_row_all_wait_and_then_one_is_tried() -> None:
    assert planned(*failures(100, 200), a_guest("z")).pause is None
    three = planned(*failures(100, 200, 300), a_guest("z"))
    assert three.pause is not None
    assert (three.move, three.pause.vmis, three.pause.seconds) == ((), MOST_FAILURES, PAUSE_SECONDS - 100)
    assert three.pause.until == rfc3339(NOW + timedelta(seconds=PAUSE_SECONDS - 100))
    over = failures(PAUSE_SECONDS, 700, 800)
    assert len(planned(*over, a_guest("z")).move) == 1
    tried = a_guest("y", migrations=[a_migration("Running", 5, "y")])
    assert planned(*over, tried, a_guest("z")).move == ()
    moved = a_guest("y", version=NEW, migrations=[a_migration("Succeeded", 5, "y")])
    assert planned(*over, moved, a_guest("z")).pause is None
    assert len(planned(*over, moved, a_guest("z")).move) == 4


def test_one_guest_that_fails_again_and_again_stops_no_other_nor_do_disks_or_users() -> None:
    again = a_guest("a", migrations=[a_migration("Failed", 1000 + 10 * number, "a") for number in range(4)])
    others = [
        a_guest(name, migrations=[a_migration("Failed", 1000, name, **kind)])
        for name, kind in (("b", {"ours": False}), ("c", {"disks": True}), ("d", {"disks": True}))
    ]
    assert planned(again, *others).pause is None


def test_a_clock_that_was_put_back_has_nobody_wait_longer() -> None:
    pause = planned(*failures(-100_000, -100_001, -100_002)).pause
    assert pause is not None
    assert pause.seconds == PAUSE_SECONDS


def test_disks_move_whatever_the_strategy_says_as_somebody_asked_for_it() -> None:
    rules = replace(RULES, updates=WorkloadUpdates(), versions={"node-1": NEW, "node-2": OLD})
    plan = planned(a_guest("web", CAN, CHANGES, version=NEW), rules=rules)
    assert (names(plan.exchange), plan.move) == (["web"], ())
    made = make_migration(plan.exchange[0])
    assert made.metadata.labels == {"kubevirt.io/volume-update-migration": "web"}
    assert made.spec.priority == "user-triggered"
    long = a_guest("n" * 64, CAN, CHANGES)
    assert make_migration(long.vmi).metadata.labels == {"kubevirt.io/volume-update-migration": long.vmi.metadata.uid}


def test_disks_wait_for_a_handler_that_knows_them_and_for_a_guest_that_can() -> None:
    assert planned(a_guest("web", CAN, CHANGES), rules=replace(RULES, versions={"node-1": OLD})).exchange == ()
    assert planned(a_guest("web", CANNOT, CHANGES, version=NEW)).exchange == ()
    failed = planned(a_guest("web", CAN, CHANGES, version=NEW, migrations=[a_migration("Failed", 5, disks=True)]))
    assert (failed.exchange, failed.again_after) == ((), 15)


JOINS = {"type": "MigrationRequired", "status": "True", "lastTransitionTime": rfc3339(NOW - timedelta(seconds=15))}


def test_a_guest_whose_pod_joins_no_network_moves_to_another_one_where_moves_are_allowed() -> None:
    guest = a_guest("web", CAN, JOINS, version=NEW)
    plan = planned(guest)
    assert (names(plan.join), plan.move, plan.exchange) == (["web"], (), ())
    made = make_migration(plan.join[0])
    assert made.metadata.labels == {"kvedge.io/network-update-migration": "web"}
    assert (made.spec.vmi_name, made.spec.priority) == ("web", "user-triggered")
    # One migration, although its launcher is of another release as well.
    both = planned(a_guest("web", CAN, JOINS))
    assert (names(both.join), both.move) == (["web"], ())
    assert planned(guest, rules=replace(RULES, updates=WorkloadUpdates(evict=True))).join == ()
    assert planned(guest, rules=replace(RULES, nodes=1)).join == ()
    assert planned(a_guest("web", CANNOT, JOINS, version=NEW)).join == ()
    assert (
        planned(a_guest("web", CAN, JOINS, version=NEW, migrations=[a_migration("Running", 1, ours=False)])).join == ()
    )


def test_the_handler_of_its_node_has_time_to_join_the_pod_itself() -> None:
    fresh = JOINS | {"lastTransitionTime": rfc3339(NOW - timedelta(seconds=14))}
    plan = planned(a_guest("web", CAN, fresh, version=NEW))
    assert (plan.join, plan.again_after) == ((), 30.0)
    pending = JOINS | {"status": "False"}
    assert planned(a_guest("web", CAN, pending, version=NEW)).join == ()


def test_a_guest_that_no_node_can_join_to_its_network_is_moved_more_and_more_rarely_and_stops_no_update() -> None:
    label = {"kvedge.io/network-update-migration": "x"}
    failed = [
        a_guest(f"vm-{n}", CAN, JOINS, version=NEW, migrations=[a_migration("Failed", 5, f"vm-{n}", labels=label)])
        for n in range(MOST_FAILURES)
    ]
    plan = planned(*failed, a_guest("old"))
    assert (plan.join, len(plan.wait), plan.pause, names(plan.move)) == ((), MOST_FAILURES, None, ["old"])


def test_guests_that_move_for_their_nics_leave_half_of_the_places_to_updates() -> None:
    joining = [a_guest(f"nic-{n}", CAN, JOINS, version=NEW) for n in range(9)]
    outdated = [a_guest(f"old-{n}") for n in range(9)]
    plan = planned(*joining, *outdated)
    assert (names(plan.join), len(plan.move)) == (["nic-0", "nic-1"], 3)
    # Those that are under way count: places that become free again are not all theirs.
    label = {"kvedge.io/network-update-migration": "x"}
    busy = [
        a_guest(f"busy-{n}", CAN, JOINS, version=NEW, migrations=[a_migration("Pending", 5, f"busy-{n}", labels=label)])
        for n in range(2)
    ]
    plan = planned(*busy, *joining, *outdated)
    assert (plan.join, len(plan.move)) == ((), 3)
    # The only place is theirs as well; what has failed waits, and then it is an update's.
    only = replace(RULES, places=1)
    assert names(planned(*joining, *outdated, rules=only).join) == ["nic-0"]
    assert planned(busy[0], *joining, *outdated, rules=only).join == ()
    assert planned(a_guest("web", CAN, CHANGES), *joining, rules=only).join == ()


def test_a_migration_is_given_up_when_its_nic_has_gone() -> None:
    under_way = [a_migration("Scheduling", 5)]
    (abort,) = planned(a_guest("web", CAN, version=NEW, migrations=under_way)).abort
    assert abort.migration is under_way[0]
    assert planned(a_guest("web", CAN, JOINS, version=NEW, migrations=under_way)).abort == ()


def test_a_guest_that_is_outdated_and_changes_its_disks_gets_one_migration() -> None:
    plan = planned(a_guest("web", CAN, CHANGES))
    assert (names(plan.exchange), plan.move) == (["web"], ())


def test_a_migration_whose_change_was_withdrawn_is_given_up_until_its_target_is_ready() -> None:
    ours = a_migration("Scheduling", 5, disks=True)
    withdrawn = a_guest(version=NEW, migrations=[ours])
    (abort,) = planned(withdrawn).abort
    assert abort.migration is ours
    assert planned(a_guest("web", CAN, CHANGES, version=NEW, migrations=[ours])).abort == ()
    state = {"migrationUid": ours.metadata.uid}
    assert len(planned(a_guest(version=NEW, migrations=[ours], status={"migrationState": state})).abort) == 1
    for more in ({"targetNodeDomainReadyTimestamp": rfc3339(NOW)}, {"completed": True}):
        moved = a_guest(version=NEW, migrations=[ours], status={"migrationState": {**state, **more}})
        assert planned(moved).abort == ()
    told = {"kubevirt.io/workloadUpdateMigrationAbortion": ""}
    assert len(planned(a_guest("web", CAN, CHANGES, migrations=[ours], annotations=told)).abort) == 1
    for other in (a_migration("Running", 5, ours=False), a_migration("Failed", 5)):
        assert planned(a_guest(version=NEW, migrations=[other])).abort == ()


def test_labels_follow_what_is_outdated() -> None:
    plan = planned(a_guest("a", labels={}), a_guest("b", version=NEW, labels={"kubevirt.io/outdatedLauncherImage": ""}))
    assert (names(plan.mark), names(plan.unmark)) == (["a"], ["b"])
    assert (planned(a_guest()).mark, planned(a_guest()).unmark) == ((), ())
    many = planned(*(a_guest(f"vm-{number}", labels={}) for number in range(120)))
    assert (len(many.mark), many.again_after) == (50, 1.0)


def test_nothing_to_do_is_not_looked_at_again() -> None:
    assert planned(a_guest(version=NEW)).again_after is None
    assert planned(a_guest()).again_after == 30.0
