# Tests: kvedge/controller/backups/run_plan.py, kvedge/controller/backups/restore_plan.py
"""Backups and restores wait for what has their repository for itself, and waiting is no attempt."""

from __future__ import annotations

import pytest

from kvedge.controller.backups.restore_plan import RestoreView, plan_restore
from kvedge.controller.backups.run_plan import RunView, plan_run
from kvedge.controller.snapshots.snapshot_actions import SnapshotPlan
from kvedge.resources.types.protection.backup_job import BackupOutcome
from tests.support.builders import CONFIG
from tests.unit.controller.backups.backup_world import RESTORE_UID, UID, World


class BusyWorld(World):
    """A world whose repository a task has."""

    busy = ""

    def look(self) -> SnapshotPlan:
        assert self.run is not None
        worker = self.pods.get(f"backup-{UID}")
        view = RunView(
            self.run, self.repository, self.vm, self.snapshot, self.content, self.claims, worker, CONFIG, busy=self.busy
        )
        return plan_run(view, self.now)

    def look_at_restore(self) -> SnapshotPlan:
        assert self.restore is not None
        reader = self.pods.get(f"read-{RESTORE_UID}")
        view = RestoreView(self.restore, self.repository, None, {}, reader, None, CONFIG, busy=self.busy)
        return plan_restore(view, self.now)


def test_a_backup_waits_with_its_snapshot() -> None:
    world = BusyWorld()
    world.ask_backup()
    world.busy = "nightly-prune-000001"
    world.settle()
    world.have_snapshot(sourceUID="uid-of-web")
    world.settle()
    assert world.run is not None
    assert world.run.status.message == "task nightly-prune-000001 has the repository"
    assert (world.pods, world.run.status.attempts) == ({}, 0)
    world.busy = ""
    world.settle()
    assert list(world.pods) == [f"backup-{UID}"]
    assert world.job("backup").vm_uid == "uid-of-web", "by which old ones are known to be this VM's"


def test_a_restore_waits_before_it_reads_which_backup_it_is() -> None:
    world = BusyWorld()
    world.ask_restore(targetName="web2")
    world.busy = "prune"
    world.settle("restore")
    assert world.restore is not None
    assert (world.restore.status.phase, world.restore.status.message) == ("Pending", "task prune has the repository")
    world.busy = ""
    world.settle("restore")
    assert list(world.pods) == [f"read-{RESTORE_UID}"]


@pytest.mark.parametrize("which", ["run", "restore"])
def test_another_box_that_has_the_lock_costs_no_attempt(which: str) -> None:
    world = BusyWorld()
    mode = "backup" if which == "run" else "read"
    if which == "run":
        world.ask_backup()
        world.settle()
        world.have_snapshot()
    else:
        world.ask_restore(targetName="web2")
    world.settle(which)
    for _ in range(8):
        world.end(mode, BackupOutcome(message="already locked", locked=True), well=False)
        world.settle(which)
        assert world.pods == {}, "not at once"
        world.wait(600)
        world.settle(which)
        assert len(world.pods) == 1
    item = world.run if which == "run" else world.restore
    assert item is not None
    assert (item.is_final, item.status.attempts) == (False, 1)
