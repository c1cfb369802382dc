# Tests: kvedge/controller/backups/run_plan.py
"""A backup of a running VM whose guest is not brought to rest: its VM is not locked for a day."""

from __future__ import annotations

import pytest

from kvedge.resources.disks.snapshot_names import LIVE_COPIES, METHOD
from kvedge.runtime.clock import rfc3339
from tests.unit.controller.backups.backup_world import World, the_content


@pytest.fixture
def world() -> World:
    """Copies have been asked for, and the moment has not come."""
    found = World()
    found.ask_backup()
    found.settle()
    found.have_snapshot(ready=False, phase="InProgress", creationTime=None)
    found.content = the_content()
    found.content.metadata.annotations[METHOD] = LIVE_COPIES
    found.content.metadata.creation_timestamp = rfc3339(found.now)
    return found


def phase(world: World) -> str:
    world.settle()
    assert world.run is not None
    return world.run.status.phase


def test_a_guest_that_is_never_at_rest_fails_the_backup_and_its_snapshot_goes(world: World) -> None:
    assert phase(world) == "Snapshotting"
    world.wait(899)
    plan = world.settle()
    assert plan.again_after is not None
    assert plan.again_after <= 1, "nothing tells of the time"
    world.wait(2)
    assert phase(world) == "Failed"
    assert world.run is not None
    assert "within 900 s" in world.run.status.message
    assert world.snapshot is None


def test_copies_whose_moment_has_come_take_as_long_as_they_need(world: World) -> None:
    assert world.snapshot is not None
    world.snapshot.status.creation_time = rfc3339(world.now)
    world.wait(20_000)
    assert phase(world) == "Snapshotting"


def test_copies_of_a_vm_that_is_off_have_no_moment_to_wait_for(world: World) -> None:
    assert world.content is not None
    world.content.metadata.annotations.clear()
    world.wait(20_000)
    assert phase(world) == "Snapshotting"


def test_a_snapshot_that_the_user_takes_is_his_own_matter(world: World) -> None:
    world.ask_backup(snapshotName="before")
    world.have_snapshot(ready=False, name="before", phase="InProgress", creationTime=None)
    world.wait(20_000)
    assert phase(world) == "Snapshotting"
