# Tests: kvedge/controller/schedules/schedule_pruning.py
"""When a schedule takes snapshots, what it deletes, and what it says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.controller.schedules.schedule_plan import ScheduleView, next_name, plan_schedule
from kvedge.controller.schedules.schedule_pruning import find_superseded
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotPlan
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.schedule_names import PROTECTED, SEQUENCE
from kvedge.resources.meta import condition
from kvedge.resources.types.protection.schedules import VirtualMachineSnapshotSchedule
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, a_vm, patched

HOUR = timedelta(hours=1)


class World:
    """A schedule, its VM and its snapshots; what the plan says is done to these."""

    def __init__(self, **spec: Any) -> None:
        source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
        document = {
            "metadata": {"name": "hourly", "namespace": "default", "uid": "u"},
            "spec": {"source": source, "every": "1h", "keep": 2, **spec},
        }
        self.schedule = decode(VirtualMachineSnapshotSchedule, document)
        self.vm: VirtualMachine | None = a_vm()
        self.snapshots: dict[str, VirtualMachineSnapshot] = {}
        self.strangers: set[str] = set()
        self.in_use: set[str] = set()
        self.refusal = ""
        self.told: list[str] = []
        self.now = NOW

    def settle(self) -> SnapshotPlan:
        for _ in range(8):
            taken = list(self.snapshots.values())
            stranger = next_name(self.schedule, taken) in self.strangers
            view = ScheduleView(self.schedule, self.vm, taken, self.in_use, stranger, self.refusal)
            plan = plan_schedule(view, self.now)
            if not plan.actions:
                return plan
            for action in plan.actions:
                match action:
                    case Create(VirtualMachineSnapshot() as item):
                        if not self.refusal:
                            self.snapshots[item.metadata.name] = item
                    case Delete(item):
                        del self.snapshots[item.metadata.name]
                    case Patch(item, body):
                        self.schedule = decode(VirtualMachineSnapshotSchedule, patched(encode(item), body))
            self.told += [told.reason for told in plan.told]
        raise AssertionError(f"the plan does not settle: {plan}")

    def complete(self, phase: str = "Succeeded") -> None:
        """Play the loop of snapshots."""
        for each in self.snapshots.values():
            if not each.is_final:
                each.status.phase = phase
                each.status.ready_to_use = phase == "Succeeded"

    def wait(self, by: timedelta) -> None:
        self.now += by

    def run_once(self, by: timedelta = HOUR) -> None:
        self.settle()
        self.complete()
        self.settle()
        self.wait(by)

    @property
    def numbers(self) -> list[int]:
        return sorted(int(each.metadata.labels[SEQUENCE]) for each in self.snapshots.values())

    @property
    def ready(self) -> str:
        found = condition(self.schedule.status.conditions, "Ready")
        return "" if found is None else f"{found.status} {found.reason}"


def test_the_first_is_taken_at_once_and_the_next_ones_in_time() -> None:
    world = World()
    world.settle()
    assert list(world.snapshots) == ["web-hourly-000001"]
    assert world.schedule.status.current_snapshot == "web-hourly-000001"
    world.complete()
    assert world.settle().again_after == 3600.0
    assert world.schedule.status.last_success_time == rfc3339(NOW)
    assert (world.ready, world.told) == ("True Scheduled", ["SnapshotTaken"])
    world.wait(HOUR - timedelta(seconds=1))
    world.settle()
    assert world.numbers == [1]
    world.wait(timedelta(seconds=1))
    world.settle()
    assert world.numbers == [1, 2]


def test_the_newest_stay_and_protected_ones_do_not_count() -> None:
    world = World()
    for _ in range(3):
        world.run_once()
    assert world.numbers == [2, 3]
    world.snapshots["web-hourly-000002"].metadata.labels[PROTECTED] = "true"
    for _ in range(3):
        world.run_once()
    assert world.numbers == [2, 5, 6]


def test_after_ten_missed_ones_one_is_taken_and_the_times_stay_where_they_were() -> None:
    world = World()
    world.run_once(timedelta(hours=10, minutes=20))
    world.settle()
    world.complete()
    world.settle()
    assert world.numbers == [1, 2]
    assert world.schedule.status.next_schedule_time == rfc3339(NOW + timedelta(hours=11))


def test_a_clock_that_goes_back_by_years_puts_nothing_off_for_long_and_deletes_no_newer_one() -> None:
    world = World()
    world.run_once()
    world.run_once(timedelta(days=-3650))
    world.settle()
    assert world.numbers == [1, 2]
    world.wait(HOUR)
    world.run_once()
    world.run_once()
    assert world.numbers == [3, 4]


def test_a_clock_that_jumps_ahead_takes_one() -> None:
    world = World()
    world.run_once(timedelta(days=3650))
    world.run_once(timedelta(minutes=1))
    world.settle()
    assert world.numbers == [1, 2]


def test_failures_are_counted_told_and_over_with_the_next_success() -> None:
    world = World()
    world.run_once()
    for count in (1, 2):
        world.settle()
        world.complete("Failed")
        world.settle()
        assert (world.schedule.status.failures, world.ready) == (count, "False SnapshotFailed")
        world.wait(HOUR)
    assert world.told == ["SnapshotTaken", "SnapshotFailed", "SnapshotFailed"]
    # The last complete one stays, and so do the failed ones until there is another.
    assert world.numbers == [1, 2, 3]
    world.run_once()
    assert (world.numbers, world.ready) == ([1, 4], "True Scheduled")
    assert world.schedule.status.failures == 0


def test_one_that_takes_longer_than_its_time_is_late_and_no_other_is_begun() -> None:
    world = World()
    world.settle()
    world.wait(HOUR)
    world.settle()
    assert (world.numbers, world.ready, world.told) == ([1], "False Late", ["Late"])
    world.complete()
    world.settle()
    assert (world.numbers, world.ready) == ([1, 2], "True Scheduled")


def test_it_waits_for_another_operation_and_says_when_that_takes_long() -> None:
    world = World()
    assert world.vm is not None
    world.vm.status.restore_in_progress = "back"
    world.settle()
    assert (world.numbers, world.ready) == ([], "True Scheduled")
    world.wait(HOUR)
    world.settle()
    assert (world.numbers, world.ready) == ([], "False Late")
    world.vm.status.restore_in_progress = None
    world.settle()
    assert (world.numbers, world.ready) == ([1], "True Scheduled")


def test_a_vm_that_is_not_there_is_told_once() -> None:
    world = World()
    world.vm = None
    world.settle()
    world.wait(HOUR)
    world.settle()
    assert (world.numbers, world.ready, world.told) == ([], "False SourceDoesNotExist", ["SourceDoesNotExist"])
    world.vm = a_vm()
    world.settle()
    assert world.numbers == [1]


def test_a_refused_one_and_a_deleted_one_have_failed() -> None:
    world = World()
    world.refusal = "no room"
    world.settle()
    assert (world.numbers, world.ready) == ([], "False SnapshotFailed")
    world.refusal = ""
    world.wait(HOUR)
    world.settle()
    world.snapshots.clear()
    world.settle()
    assert world.schedule.status.failures == 2


def test_a_name_of_somebody_else_is_passed_over() -> None:
    world = World()
    world.strangers = {"web-hourly-000001"}
    world.settle()
    assert list(world.snapshots) == ["web-hourly-000002"]


def test_one_that_was_made_before_it_was_written_down_is_not_made_again() -> None:
    world = World()
    world.settle()
    before = world.schedule
    world.schedule = decode(VirtualMachineSnapshotSchedule, {**encode(before), "status": {"lastSequence": 0}})
    world.settle()
    assert world.numbers == [1]
    assert world.schedule.status.current_snapshot == "web-hourly-000001"


def test_a_lost_status_goes_on_behind_what_was_taken() -> None:
    world = World()
    world.run_once()
    world.schedule = decode(VirtualMachineSnapshotSchedule, {**encode(world.schedule), "status": {}})
    world.settle()
    assert world.numbers == [1, 2]


def test_a_suspended_one_does_nothing_and_takes_one_when_it_goes_on() -> None:
    world = World(suspend=True)
    world.settle()
    world.wait(HOUR)
    world.settle()
    assert (world.numbers, world.ready) == ([], "True Suspended")
    world.schedule.spec.suspend = None
    world.settle()
    assert world.numbers == [1]


def test_one_that_a_restore_works_with_stays_for_now() -> None:
    world = World(keep=1)
    world.run_once()
    world.in_use = {"web-hourly-000001"}
    world.run_once()
    assert world.numbers == [1, 2]
    world.in_use = set()
    world.settle()
    assert world.numbers[0] != 1


def test_a_schedule_that_goes_leaves_what_it_has_taken() -> None:
    world = World()
    world.run_once()
    world.schedule.metadata.deletion_timestamp = rfc3339(NOW)
    assert world.settle() == SnapshotPlan()
    assert world.numbers == [1]


_STATES = st.lists(st.tuples(st.sampled_from(["ok", "lost", "failed", "going"]), st.booleans()), max_size=12)


@settings(max_examples=200)
@given(states=_STATES, keep=st.integers(1, 4))
def test_pruning_keeps_the_newest_complete_ones_and_never_the_last_goes(
    states: list[tuple[str, bool]], keep: int
) -> None:
    snapshots = []
    for number, (state, is_protected) in enumerate(states):
        labels = {SEQUENCE: str(number), **({PROTECTED: "true"} if is_protected else {})}
        phase = {"ok": "Succeeded", "lost": "Succeeded", "failed": "Failed", "going": "InProgress"}[state]
        document = {
            "metadata": {"name": str(number), "labels": labels},
            "status": {"phase": phase, "readyToUse": state == "ok"},
        }
        snapshots.append(decode(VirtualMachineSnapshot, document))
    gone = {int(each.metadata.name) for each in find_superseded(snapshots, keep, ())}
    complete = [number for number, (state, is_protected) in enumerate(states) if state == "ok" and not is_protected]
    assert [number for number in complete if number not in gone] == complete[-keep:]
    assert all(not states[number][1] and states[number][0] != "going" for number in gone)
    assert all(number < complete[-1] for number in gone if states[number][0] != "ok")


@pytest.mark.parametrize("text", ["", "x", "-1", "٣"])
def test_one_whose_number_is_spoilt_stays(text: str) -> None:
    status = {"phase": "Succeeded", "readyToUse": True}
    spoilt, *others = (
        decode(VirtualMachineSnapshot, {"metadata": {"name": label, "labels": {SEQUENCE: label}}, "status": status})
        for label in (text, "1", "2")
    )
    assert [each.metadata.name for each in find_superseded([spoilt, *others], 2, ())] == ["1"]
