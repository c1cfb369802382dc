# Tests: kvedge/controller/snapshots/live_plan.py, kvedge/controller/snapshots/live_copies.py
"""What comes of a snapshot of a VM that runs."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.snapshots.live_copies import copy_request
from kvedge.resources.codec import encode
from kvedge.resources.disks.snapshot_names import METHOD, SEALED_CLAIM
from kvedge.resources.names import GROWTH_ROOM, PCI_TOPOLOGY
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import BackupStatus, ChangedBlockTracking, UtilityVolume
from kvedge.resources.types.volumes import HostDisk, Volume
from kvedge.runtime.clock import rfc3339
from tests.support.builders import a_claim
from tests.unit.controller.snapshots.snapshot_world import COPIES, World


@pytest.fixture
def world() -> World:
    """A VM that runs with its disks, and a snapshot of it that has just been made."""
    made = World()
    made.run()
    return made


def answer(world: World, **told: Any) -> None:
    """What the handler says of the copy that the VMI asks for."""
    assert world.vmi is not None
    assert world.vmi.status.disk_copy is not None
    status = BackupStatus(backup_name=world.vmi.status.disk_copy.name, **told)
    world.vmi.status.changed_block_tracking = ChangedBlockTracking(backup_status=status)


def fix_moment(world: World, quiesce: str = "GuestAgent", **told: Any) -> None:
    answer(world, start_timestamp=rfc3339(world.now), quiesce_status=quiesce, **told)


def complete(world: World, quiesce: str = "GuestAgent") -> None:
    fix_moment(world, quiesce, completed=True)
    world.settle()


def status(world: World) -> Any:
    assert world.snapshot is not None
    return world.snapshot.status


def is_let_go(world: World) -> bool:
    assert world.vm is not None
    assert world.vmi is None or (not world.vmi.spec.utility_volumes and world.vmi.status.disk_copy is None)
    return not world.vm.status.snapshot_in_progress and not world.vm.metadata.finalizers


def test_a_running_vm_gets_claims_like_its_own_and_is_asked_for_one_copy_of_all_disks(world: World) -> None:
    world.settle()
    assert world.vm is not None
    assert world.vmi is not None
    assert world.content is not None
    assert world.vm.status.snapshot_in_progress == "before"
    assert world.content.metadata.annotations[METHOD] == "live-copies"
    assert set(COPIES.values()) <= world.claims.keys()
    for name in COPIES.values():
        assert world.claims[name].metadata.owner_references[0].name == world.content.metadata.name
        assert world.claims[name].spec.storage_class_name == "disks"
    brought = {each.name: each for each in world.vmi.spec.utility_volumes}
    asked = world.vmi.status.disk_copy
    assert asked == copy_request(world.content)
    assert {volume.volume_name: brought[volume.copy_name].claim_name for volume in asked.volumes} == COPIES
    assert {each.type for each in brought.values()} == {"Backup"}


def test_the_moment_and_how_the_guest_was_held_still_are_told_before_the_copies_are_whole(world: World) -> None:
    world.settle()
    fix_moment(world, backup_msg="12%")
    world.settle()
    assert status(world).phase == "InProgress"
    assert status(world).creation_time == rfc3339(world.now)
    assert status(world).indications == ["GuestAgent", "Online"]
    assert not any(SEALED_CLAIM in world.claims[name].metadata.annotations for name in COPIES.values())


@pytest.mark.parametrize("quiesce", ["GuestAgent", "NoGuestAgent", "QuiesceTimeout", "Paused"])
def test_whole_copies_are_sealed_and_the_vm_is_let_go(world: World, quiesce: str) -> None:
    world.settle()
    moment = rfc3339(world.now)
    fix_moment(world, quiesce)
    world.settle()
    world.wait(3600)
    answer(world, start_timestamp=moment, quiesce_status=quiesce, completed=True)
    world.settle()
    assert status(world).phase == "Succeeded"
    assert status(world).ready_to_use
    assert status(world).creation_time == moment
    assert status(world).indications == sorted(["Online", quiesce])
    assert [each.indication for each in status(world).source_indications] == sorted(["Online", quiesce])
    assert all(each.message for each in status(world).source_indications)
    assert is_let_go(world)
    world.ask_restore("other")
    world.settle_restore()
    assert world.volumes.keys() >= {f"restore-{world.restore.metadata.uid}-root"}  # type: ignore[union-attr]


def test_a_copy_that_fails_fails_the_snapshot_with_its_words(world: World) -> None:
    world.settle()
    fix_moment(world, failed=True, backup_msg="no space left for the copy")
    world.settle()
    assert status(world).phase == "Failed"
    assert "no space left for the copy" in status(world).error.message
    assert is_let_go(world)
    assert world.content is None


@pytest.mark.parametrize("how", ["stopped", "crashed", "another run"])
def test_a_vm_that_ends_meanwhile_fails_the_snapshot(world: World, how: str) -> None:
    world.settle()
    fix_moment(world)
    world.settle()
    assert world.vmi is not None
    if how == "stopped":
        world.vmi = None
    elif how == "crashed":
        world.vmi.status.phase = "Failed"
    else:
        world.vmi.metadata.uid = "another"
    world.settle()
    assert status(world).phase == "Failed"
    assert "ended while its disks were copied" in status(world).error.message
    assert is_let_go(world)


def test_a_drain_of_the_node_does_not_wait_for_copies(world: World) -> None:
    world.settle()
    fix_moment(world)
    world.settle()
    assert world.vmi is not None
    world.vmi.status.evacuation_node_name = "box"
    world.settle()
    assert status(world).phase == "Failed"
    assert "is to leave node box" in status(world).error.message
    assert is_let_go(world)


def test_a_vm_that_ends_when_all_is_sealed_takes_nothing_away(world: World) -> None:
    world.settle()
    fix_moment(world)
    world.settle()
    for name in COPIES.values():
        world.claims[name].metadata.annotations[SEALED_CLAIM] = world.claims[name].metadata.uid
    world.vmi = None
    world.settle()
    assert status(world).phase == "Succeeded"
    assert status(world).indications == ["GuestAgent", "Online"]


def test_a_deadline_holds_until_the_moment_is_fixed_unless_it_is_given(world: World) -> None:
    world.settle()
    answer(world, backup_msg="the guest's file systems cannot be frozen: no answer")
    world.settle()
    fixed = World()
    fixed.run()
    fixed.settle()
    fix_moment(fixed)
    given = World(failureDeadline="1m")
    given.run()
    given.settle()
    fix_moment(given)
    for each in (world, fixed, given):
        each.wait(301)
        each.settle()
    assert (status(world).phase, status(fixed).phase, status(given).phase) == ("Failed", "InProgress", "Failed")
    assert world.reason(type_="Failure") == "snapshot deadline exceeded"
    assert "cannot be frozen" in status(world).error.message
    assert is_let_go(world)


def test_a_snapshot_that_is_deleted_while_it_is_taken_asks_for_nothing_more(world: World) -> None:
    world.settle()
    world.delete("snapshot")
    world.settle()
    assert is_let_go(world)
    assert world.snapshot is None


def test_a_copy_whose_claim_goes_fails(world: World) -> None:
    world.settle()
    del world.claims[COPIES["data"]]
    world.settle()
    assert status(world).phase == "Failed"
    assert COPIES["data"] in status(world).error.message


def test_a_claim_of_that_name_which_somebody_else_has_made_is_not_written_to(world: World) -> None:
    world.claims[COPIES["data"]] = a_claim(COPIES["data"], storage_class_name="disks")
    world.settle()
    assert status(world).phase == "Failed"
    assert "none of this snapshot" in status(world).error.message
    assert is_let_go(world)


@pytest.mark.parametrize("obstacle", ["starting", "ending", "moving", "copied", "another disk"])
def test_what_a_running_vm_waits_for_is_told(world: World, obstacle: str) -> None:
    vmi = world.vmi
    assert vmi is not None
    if obstacle == "starting":
        vmi.status.phase = "Scheduled"
    elif obstacle == "ending":
        vmi.metadata.deletion_timestamp = rfc3339(world.now)
    elif obstacle == "moving":
        vmi.status.migration_state = MigrationState(migration_uid="m", target_node="there")
    elif obstacle == "copied":
        vmi.spec.utility_volumes = [UtilityVolume(name="x", claim_name="x", type="Backup")]
    else:
        vmi.spec.volumes = [volume for volume in vmi.spec.volumes if volume.name != "data"]
    world.settle()
    said = {
        "starting": "is starting",
        "ending": "is ending",
        "moving": "is moving",
        "copied": "volumes of another copy",
        "another disk": "does not run with PVC web-data as volume data",
    }
    assert said[obstacle] in world.reason()
    assert world.vm is not None
    assert not world.vm.status.snapshot_in_progress
    assert world.content is None


def test_what_comes_with_the_next_start_only_is_not_in_the_snapshot(world: World) -> None:
    assert world.vm is not None
    assert world.vm.spec.template is not None
    started = encode(world.vm.spec)
    started["template"]["spec"]["volumes"] = started["template"]["spec"]["volumes"][:1]
    world.revision = {"spec": started}
    world.vm.spec.template.spec.hostname = "changed-since"
    world.settle()
    assert world.content is not None
    spec = (world.content.spec.source.virtual_machine or {})["spec"]
    assert spec["template"]["spec"].get("hostname") != "changed-since"
    assert [volume["name"] for volume in spec["template"]["spec"]["volumes"]] == ["root", "data", "tools"]


def test_what_was_noted_of_the_runs_machine_since_its_start_is_in_the_snapshot(world: World) -> None:
    assert world.vm is not None
    assert world.vm.spec.template is not None
    world.revision = {"spec": encode(world.vm.spec)}
    marks = {PCI_TOPOLOGY: "v3", GROWTH_ROOM: "v1"}
    world.vm.spec.template.metadata.annotations = {**marks, "changed": "since"}
    world.settle()
    assert world.content is not None
    spec = (world.content.spec.source.virtual_machine or {})["spec"]
    assert spec["template"]["metadata"]["annotations"] == marks


def test_files_of_the_node_are_left_out_and_that_is_said(world: World) -> None:
    assert world.vm is not None
    assert world.vm.spec.template is not None
    host = Volume(name="host", host_disk=HostDisk(path="/srv/a.img", type="Disk"))
    world.vm.spec.template.spec.volumes = [*world.vm.spec.template.spec.volumes, host]
    world.settle()
    complete(world, "NoGuestAgent")
    assert status(world).phase == "Succeeded"
    assert status(world).indications == ["NoGuestAgent", "Online", "PartialSnapshot"]
    assert "host" in status(world).snapshot_volumes.excluded_volumes


def test_a_vm_that_runs_without_any_disk_that_lasts_has_a_moment_too(world: World) -> None:
    assert world.vm is not None
    assert world.vm.spec.template is not None
    assert world.vmi is not None
    tools = [volume for volume in world.vm.spec.template.spec.volumes if volume.name == "tools"]
    world.vm.spec.template.spec.volumes = world.vmi.spec.volumes = tools
    world.settle()
    assert status(world).phase == "InProgress"
    complete(world)
    assert status(world).phase == "Succeeded"
    assert status(world).indications == ["GuestAgent", "Online"]
    assert is_let_go(world)
