"""Errands in a repository: one at a time, tried again, and what they tell."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kvedge.controller.backups.upkeep.task_plan import TaskView, find_task_rival, plan_task
from kvedge.controller.backups.worker_pods import job_of
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, Told
from kvedge.resources.codec import decode, encode, encode_json
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import BackupCatalog, BackupJob, BackupOutcome, PruneTarget
from kvedge.resources.types.protection.backup_tasks import BackupTask, CatalogEntry
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from tests.support.builders import CONFIG, NOW, patched

UID = "0f5c0000-0000-4000-8000-00000000000d"


class World:
    """A task, its repository and its worker."""

    def __init__(self, **spec: Any) -> None:
        self.now = NOW
        metadata = {"name": "t", "namespace": "default", "uid": UID}
        self.task = decode(BackupTask, {"metadata": metadata, "spec": {"repositoryName": "usb", **spec}})
        place = {"claimName": "usb-backups", "secretName": "usb-key"}
        self.repository: BackupRepository | None = decode(
            BackupRepository, {"metadata": {"name": "usb", "namespace": "default"}, "spec": place}
        )
        self.worker: Pod | None = None
        self.targets = [PruneTarget(vm="web", uid="u", protected=["1"])]
        self.rival = ""
        self.catalog: BackupCatalog | None = None
        self.told: list[Told] = []

    def settle(self) -> None:
        for _ in range(10):
            view = TaskView(
                task=self.task,
                repository=self.repository,
                worker=self.worker,
                cluster=CONFIG,
                targets=self.targets,
                absent=["gone"],
                rival=self.rival,
                catalog=self.catalog,
                token="token",
            )
            plan = plan_task(view, self.now)
            if not plan.actions:
                return
            for action in plan.actions:
                self._do(action)
            self.told += plan.told
        raise AssertionError(f"the plan does not settle: {plan}")

    def job(self) -> BackupJob:
        assert self.worker is not None
        job = job_of(self.worker)
        assert job is not None
        return job

    def end(self, outcome: BackupOutcome, *, well: bool = True) -> None:
        """Play the worker's end."""
        assert self.worker is not None
        ended = {"exitCode": 0 if well else 1, "message": encode_json(outcome).decode(), "reason": "Completed"}
        container = {"name": "backup", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
        states = [{**container, "state": {"terminated": ended}}]
        status = {"phase": "Succeeded" if well else "Failed", "containerStatuses": states}
        self.worker = decode(Pod, {**encode(self.worker), "status": status})
        self.settle()

    def verified(self) -> tuple[str, str]:
        assert self.repository is not None
        found = condition(self.repository.status.conditions, "Verified")
        return ("", "") if found is None else (found.status, found.reason)

    def again(self) -> None:
        """Another task of the same kind."""
        self.task = decode(BackupTask, {**encode(self.task), "status": {}})
        self.worker = None
        self.settle()

    def _do(self, action: Any) -> None:
        match action:
            case Create(Pod() as item):
                self.worker = item
            case Delete(Pod()):
                self.worker = None
            case Patch(BackupTask() as item, body, "status"):
                self.task = decode(BackupTask, patched(encode(item), body))
            case Patch(BackupRepository() as item, body, "status"):
                self.repository = decode(BackupRepository, patched(encode(item), body))
            case _:
                raise AssertionError(f"no action that a task has: {action}")


def test_a_worker_is_told_whose_backups_may_go_and_which_are_in_use() -> None:
    world = World(action="Prune", vmNames=["web"], keep={"daily": 7})
    world.settle()
    job = world.job()
    assert (job.mode, job.namespace, job.targets, job.keep.daily) == ("prune", "default", world.targets, 7)
    assert job.is_known
    world.end(BackupOutcome(message="2 backups removed", removed=2, kept=7, removed_ids=["1", "2"]))
    status = world.task.status
    assert (status.phase, status.removed, status.kept, status.removed_ids) == ("Succeeded", 2, 7, ["1", "2"])
    assert [each.reason for each in world.told] == ["BackupsPruned"]
    assert world.worker is None


def test_without_any_of_its_vms_nothing_is_pruned() -> None:
    world = World(action="Prune", vmNames=["gone"], keep={"last": 1})
    world.targets = []
    world.settle()
    assert (world.task.status.phase, world.task.status.message) == ("Failed", "no VM of these is there: gone")
    assert world.worker is None


def test_it_waits_for_its_repository_and_for_what_works_in_it() -> None:
    world = World(action="Verify")
    there, world.repository = world.repository, None
    world.settle()
    assert world.task.status.message == "BackupRepository usb does not exist"
    world.repository, world.rival = there, "backup b"
    world.settle()
    assert (world.task.status.phase, world.task.status.message) == ("Pending", "backup b has the repository")
    world.rival = ""
    world.settle()
    assert world.task.status.phase == "Running"


def test_parts_are_read_in_turn_until_all_is_read() -> None:
    world = World(action="Verify", parts=3)
    world.settle()
    for part in (1, 2, 3):
        assert (world.job().part, world.job().parts) == (part, 3)
        world.end(BackupOutcome(message="whole"))
        assert world.repository is not None
        assert bool(world.repository.status.last_full_time) == (part == 3)
        world.again()
    assert world.job().part == 1
    assert world.verified() == ("True", "Whole")


def test_a_damaged_part_is_read_again_until_it_is_whole() -> None:
    world = World(action="Verify", parts=3)
    world.settle()
    world.end(BackupOutcome(message="whole"))
    world.again()
    # restic's words for it count as fatal too.
    damaged = BackupOutcome(message="repository contains errors", damaged=True, fatal=True)
    world.end(damaged, well=False)
    assert world.task.status.phase == "Pending", "a network that breaks looks like damage"
    world.now += timedelta(seconds=60)
    world.settle()
    world.end(damaged, well=False)
    assert world.task.status.phase == "Failed"
    assert world.verified() == ("False", "Damaged")
    world.again()
    assert world.job().part == 2
    world.end(BackupOutcome(message="whole"))
    assert world.verified() == ("True", "Whole")


def test_parts_of_another_number_do_not_hide_damage_but_all_at_once_does() -> None:
    world = World(action="Verify", parts=3)
    world.settle()
    for _ in range(2):
        world.end(BackupOutcome(message="damaged", damaged=True), well=False)
        world.now += timedelta(seconds=60)
        world.settle()
    world.task.spec.parts = 2
    world.again()
    world.end(BackupOutcome(message="whole"))
    assert world.verified() == ("False", "Damaged")
    world.task.spec.full = True
    world.again()
    assert (world.job().part, world.job().parts) == (1, 1)
    world.end(BackupOutcome(message="whole"))
    assert world.verified() == ("True", "Whole")


def test_a_place_that_does_not_answer_is_tried_five_times_and_is_no_damage() -> None:
    world = World(action="Verify")
    world.settle()
    for _ in range(5):
        assert world.worker is not None
        world.end(BackupOutcome(message="no route to host"), well=False)
        world.now += timedelta(seconds=600)
        world.settle()
    assert (world.task.status.phase, world.task.status.message) == ("Failed", "no route to host")
    assert world.verified() == ("", "")


def test_waiting_for_another_box_is_no_attempt() -> None:
    world = World(action="Prune", vmNames=["web"], keep={"last": 1})
    world.settle()
    for _ in range(9):
        world.end(BackupOutcome(message="already locked", locked=True), well=False)
        assert world.worker is None, "not at once"
        world.now += timedelta(seconds=600)
        world.settle()
        assert world.worker is not None
        assert world.task.status.attempts == 1
    world.now += timedelta(days=1)
    world.settle()
    assert (world.task.status.phase, world.worker) == ("Failed", None)
    assert world.task.status.message == "not complete within its deadline"


def test_a_list_is_written_down_as_soon_as_it_is_handed_out() -> None:
    world = World(action="List")
    world.settle()
    assert (world.job().mode, world.job().token) == ("list", "token")
    world.catalog = BackupCatalog(backups=[CatalogEntry(vm="web", id="1", complete=True)], left_out=3)
    world.settle()
    status = world.task.status
    assert (status.phase, [each.id for each in status.backups], status.left_out) == ("Succeeded", ["1"], 3)
    assert world.worker is None


def task(name: str, phase: str = "", action: str = "Prune", created: str = "2026-01-01T00:00:00Z") -> BackupTask:
    metadata = {"name": name, "uid": name, "creationTimestamp": created}
    return decode(BackupTask, {"metadata": metadata, "spec": {"action": action}, "status": {"phase": phase}})


def run(phase: str) -> BackupRun:
    return decode(BackupRun, {"metadata": {"name": "b"}, "status": {"phase": phase}})


def restore(phase: str) -> BackupRestore:
    return decode(BackupRestore, {"metadata": {"name": "r"}, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("tasks", "runs", "restores", "rival"),
    [
        ([], [run("Snapshotting"), run("Succeeded")], [restore("Pending"), restore("Failed")], ""),
        ([], [run("Copying")], [], "backup b"),
        ([], [], [restore("Reading")], "restore r"),
        ([], [], [restore("Restoring")], "restore r"),
        ([task("u", "Running")], [], [], "task u"),
        ([task("u", "Running", "List"), task("v", "Succeeded")], [], [], ""),
        ([task("u", created="2025-01-01T00:00:00Z")], [], [], "task u"),
        ([task("u", created="2027-01-01T00:00:00Z")], [], [], ""),
    ],
)
def test_what_prunes_has_the_repository_for_itself(
    tasks: list[BackupTask], runs: list[BackupRun], restores: list[BackupRestore], rival: str
) -> None:
    assert find_task_rival(task("t"), [task("t"), *tasks], runs, restores) == rival
    assert find_task_rival(task("t", action="List"), [*tasks], runs, restores) == ""
