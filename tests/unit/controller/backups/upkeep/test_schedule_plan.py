"""What a schedule of backups makes, and what it says of what became of it."""

from __future__ import annotations

import pytest

from kvedge.controller.backups.upkeep.rounds import make_run
from tests.unit.controller.backups.upkeep.schedule_world import World

FIRST = ["db-nightly-000001", "web-nightly-000001"]
SECOND = ["db-nightly-000002", "web-nightly-000002"]


def test_each_vm_is_backed_up_at_once_and_then_in_every_turn() -> None:
    world = World()
    assert world.settle() == 30.0
    assert world.open_runs() == FIRST
    assert world.ready() == ("True", "Scheduled", "")
    world.wait(minutes=5)
    world.end_all()
    assert world.open_runs() == []
    assert [each.last_backup_id for each in world.schedule.status.vms] == [f"id-of-{name}" for name in FIRST]
    world.wait(hours=23)
    world.settle()
    assert world.open_runs() == []
    world.wait(hours=1)
    world.settle()
    assert world.open_runs() == SECOND


def test_after_days_without_power_one_round_is_made_and_the_missed_ones_are_told() -> None:
    world = World()
    world.settle()
    world.end_all()
    world.wait(days=5, hours=1)
    world.settle()
    assert world.open_runs() == SECOND
    assert [(each.reason, each.message) for each in world.told] == [
        ("BackupsMissed", "4 were due while nobody made them")
    ]
    world.end_all()
    world.wait(hours=22)
    world.settle()
    assert world.open_runs() == []


def test_a_vm_whose_backup_is_under_way_is_left_out_and_told_late() -> None:
    world = World()
    world.settle()
    world.end("web-nightly-000001")
    world.wait(hours=25)
    world.settle()
    assert world.open_runs() == ["db-nightly-000001", "web-nightly-000002"]
    assert world.ready() == ("False", "Late", "backup db-nightly-000001 is not complete, and the next one is due")
    world.wait(hours=24)
    world.settle()
    assert world.open_runs() == ["db-nightly-000001", "web-nightly-000002"]
    world.end_all()
    assert world.open_runs() == ["db-nightly-000003", "web-nightly-000003"]
    assert world.ready()[1] == "Scheduled"


def test_a_failure_is_told_with_its_vm_until_the_next_success() -> None:
    world = World()
    world.settle()
    world.end("db-nightly-000001", "Failed", "no route to host")
    world.end("web-nightly-000001")
    world.settle()
    assert world.ready() == ("False", "BackupFailed", "VM db: no route to host")
    assert world.schedule.status.last_failure == "VM db: no route to host"
    assert [each.message for each in world.told if each.reason == "BackupFailed"] == ["VM db: no route to host"]
    world.wait(hours=24)
    world.settle()
    assert world.ready()[1] == "BackupFailed", "the next one has not succeeded yet"
    world.end_all()
    assert world.ready() == ("True", "Scheduled", "")
    assert world.schedule.status.last_failure == "VM db: no route to host", "history"


def test_a_refused_backup_is_a_failed_one() -> None:
    world = World()
    world.refuses = "exceeded quota"
    world.settle()
    assert world.ready() == ("False", "BackupFailed", "VM db: it was refused: exceeded quota (and 1 more VMs)")
    world.refuses = ""
    world.wait(hours=24)
    world.settle()
    assert world.open_runs() == SECOND


def test_a_round_that_was_not_written_down_is_gone_on_with() -> None:
    """The controller died after it had made one of two backups."""
    world = World()
    world.settle()
    world.end_all()
    world.wait(hours=24)
    half = make_run(world.schedule, "db", 2)
    world.runs[half.metadata.name] = half
    world.settle()
    assert world.open_runs() == SECOND
    assert world.schedule.status.last_sequence == 2
    world.end_all()
    assert world.open_runs() == []


def test_a_schedule_whose_status_was_lost_goes_on_behind_what_it_has_made() -> None:
    world = World()
    world.settle()
    world.end_all()
    world.schedule.status.last_sequence = None
    world.schedule.status.last_schedule_time = None
    world.schedule.status.next_schedule_time = None
    world.settle()
    assert world.open_runs() == SECOND


def test_names_of_others_are_passed_over() -> None:
    world = World()
    world.strangers = {"web-nightly-000001"}
    world.settle()
    assert world.open_runs() == SECOND


@pytest.mark.parametrize(
    ("what", "reason"),
    [("repository", "RepositoryDoesNotExist"), ("vms", "SourceDoesNotExist")],
)
def test_what_is_missing_is_told_and_waited_for(what: str, reason: str) -> None:
    world = World()
    if what == "repository":
        world.has_repository = False
    else:
        world.vms, world.absent = [], ["db", "web"]
    assert world.settle() == 30.0
    assert world.ready()[:2] == ("False", reason)
    world.has_repository, world.vms, world.absent = True, ["db", "web"], []
    world.settle()
    assert world.open_runs() == FIRST


def test_one_absent_vm_does_not_keep_the_others() -> None:
    world = World()
    world.vms, world.absent = ["web"], ["db"]
    world.settle()
    assert world.open_runs() == ["web-nightly-000001"]
    assert world.ready() == ("False", "SourceDoesNotExist", "VM db does not exist")


def test_while_it_is_suspended_it_makes_nothing() -> None:
    world = World(suspend=True, keep={"last": 1})
    assert world.settle() is None
    assert world.open_runs() == []
    assert world.ready() == ("True", "Suspended", "")


def test_old_backups_go_once_a_round_is_over_in_which_one_succeeded() -> None:
    world = World(keep={"last": 2})
    world.settle()
    world.end("db-nightly-000001", "Failed", "x")
    world.settle()
    assert world.tasks == {}
    world.end("web-nightly-000001")
    world.settle()
    (task,) = world.tasks.values()
    assert (task.metadata.name, task.spec.action, task.spec.vm_names) == (
        "nightly-prune-000001",
        "Prune",
        ["db", "web"],
    )
    assert task.spec.keep is not None
    assert task.spec.keep.last == 2
    world.end(task.metadata.name, "Failed", "the disk is gone")
    world.settle()
    assert len(world.tasks) == 1, "one for a round"
    # Failures alone let nothing go.
    world.wait(hours=24)
    world.settle()
    for name in SECOND:
        world.end(name, "Failed", "x")
    world.settle()
    assert len(world.tasks) == 1
    world.wait(hours=24)
    world.settle()
    world.end_all()
    assert world.ready() == ("False", "PruneFailed", "the disk is gone")
    world.end("nightly-prune-000003")
    world.settle()
    assert world.ready()[1] == "Scheduled"


def test_without_rules_nothing_is_pruned() -> None:
    world = World()
    world.settle()
    world.end_all()
    assert world.tasks == {}


def test_a_part_is_read_back_in_its_turn_and_damage_is_told() -> None:
    world = World(verifyEvery="48h", verifyParts=4)
    world.settle()
    world.end_all()
    assert world.tasks == {}
    for _ in range(2):
        world.wait(hours=24)
        world.settle()
        world.end_all()
    (task,) = world.tasks.values()
    assert (task.spec.action, task.spec.parts) == ("Verify", 4)
    world.end(task.metadata.name, "Failed", "repository contains errors")
    world.settle()
    assert world.ready() == ("False", "VerificationFailed", "repository contains errors")
    assert len(world.tasks) == 1


def test_the_latest_backup_of_one_vm_after_the_other_is_booted() -> None:
    world = World(testEvery="24h")
    world.settle()
    world.end_all()
    tried = []
    for turn, (phase, ready) in enumerate(
        [("Failed", "TestFailed"), ("Succeeded", "TestFailed"), ("Succeeded", "Scheduled")]
    ):
        world.wait(hours=24)
        world.settle()
        assert not any(not each.is_final for each in world.tests.values()), "not while backups are under way"
        world.end_all()
        (test,) = [each for each in world.tests.values() if not each.is_final]
        tried.append((test.spec.vm_name, test.spec.backup_id))
        world.end(test.metadata.name, phase, "the guest has ended")
        world.settle()
        assert world.ready()[1] == ready, turn
    assert tried == [
        ("db", "id-of-db-nightly-000002"),
        ("web", "id-of-web-nightly-000003"),
        ("db", "id-of-db-nightly-000004"),
    ]
    assert sorted(each.spec.vm_name for each in world.tests.values()) == ["db", "web"], "one of each stays"


def test_ended_runs_and_tasks_are_history_of_a_bounded_length() -> None:
    world = World(keep={"last": 1}, successfulRunsHistoryLimit=2, failedRunsHistoryLimit=1)
    for turn in range(6):
        world.settle()
        phase = "Failed" if turn in (1, 2) else "Succeeded"
        for name in world.open_runs():
            world.end(name, phase, "x")
        world.settle()
        for name, task in world.tasks.items():
            if not task.is_final:
                world.end(name)
        world.settle()
        world.wait(hours=24)
    left = sorted(name for name in world.runs if name.startswith("web-") and world.runs[name].is_final)
    assert left == ["web-nightly-000003", "web-nightly-000005", "web-nightly-000006"]
    assert sorted(world.tasks) == ["nightly-prune-000005", "nightly-prune-000006"]


def test_times_that_are_none_are_told() -> None:
    world = World(every="", cron="0 0 31 2 *")
    world.settle()
    assert world.ready() == ("False", "IllegalSchedule", "spec.cron: it is never due")
