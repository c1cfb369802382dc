"""What is done for one backup, step by step."""

from __future__ import annotations

import pytest

from kvedge.resources.types.protection.backup_job import BackupOutcome
from tests.unit.controller.backups.backup_world import UID, World


@pytest.fixture
def world() -> World:
    found = World()
    found.ask_backup()
    return found


def ready(world: World) -> World:
    world.settle()
    world.have_snapshot()
    world.settle()
    return world


def test_a_snapshot_is_taken_and_waited_for(world: World) -> None:
    world.settle()
    assert world.snapshot is not None
    assert world.snapshot.metadata.name == f"backup-{UID}"
    assert world.snapshot.spec.source.name == "web"
    assert [owner.uid for owner in world.snapshot.metadata.owner_references] == [UID]
    # Time is the run's own matter.
    assert world.snapshot.spec.failure_deadline == "0s"
    assert world.run is not None
    assert world.run.status.phase == "Snapshotting"
    assert world.pods == {}


def test_a_worker_carries_the_copies_of_all_disks_and_the_vm_as_it_was(world: World) -> None:
    ready(world)
    job = world.job("backup")
    assert (job.mode, job.repository, job.backup_id, job.vm) == ("backup", "/repository/kvedge", UID, "web")
    assert [(each.name, each.block) for each in job.volumes] == [("root", False), ("data", True)]
    assert job.time == "2026-01-02T03:04:05Z"
    assert job.content is not None
    assert job.content["source"]["virtualMachine"]["metadata"]["name"] == "web"
    pod = world.pods[f"backup-{UID}"]
    sources = {
        volume.persistent_volume_claim.claim_name: volume.persistent_volume_claim.read_only
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }
    assert sources == {"copy-root": True, "copy-data": True, "usb-backups": False}
    assert pod.spec.automount_service_account_token is False
    assert pod.spec.containers[0].security_context is not None
    assert pod.spec.containers[0].security_context.run_as_user != 0
    assert not any("password" in (env.value or "") for env in pod.spec.containers[0].env)


def test_success_tells_what_is_there_and_takes_the_snapshot_away(world: World) -> None:
    ready(world)
    world.end("backup", BackupOutcome(message="Backup Complete", size=2 << 30, added=7))
    world.settle()
    assert world.run is not None
    status = world.run.status
    assert (status.phase, status.backup_id, status.size, status.added) == ("Succeeded", UID, 2 << 30, 7)
    assert status.volumes == ["root", "data"]
    assert status.completion_time
    assert (world.snapshot, world.pods) == (None, {})
    assert [told.reason for told in world.told] == ["BackupComplete"]


def test_a_given_snapshot_is_used_and_stays() -> None:
    world = World()
    world.ask_backup(snapshotName="before")
    world.settle()
    assert world.run is not None
    assert "does not exist" in world.run.status.message
    world.have_snapshot(name="before")
    world.settle()
    world.end("backup", BackupOutcome())
    world.settle()
    assert world.run.status.phase == "Succeeded"
    assert world.snapshot is not None


def test_a_failed_worker_is_tried_again_with_pauses_and_not_for_ever(world: World) -> None:
    ready(world)
    for attempt in range(1, 5):
        world.end("backup", BackupOutcome(message="no route to host"), well=False)
        world.settle()
        assert world.run is not None
        assert world.run.status.attempts == attempt
        assert "no route to host" in world.run.status.message
        assert world.pods == {}
        world.wait(301)
        world.settle()
        assert f"backup-{UID}" in world.pods
    world.end("backup", BackupOutcome(message="no route to host"), well=False)
    world.settle()
    assert world.run.status.phase == "Failed"
    assert world.run.status.message == "no route to host"
    assert world.snapshot is None


def test_what_another_try_cannot_help_ends_it_at_once(world: World) -> None:
    ready(world)
    world.end("backup", BackupOutcome(message="wrong password", fatal=True), well=False)
    world.settle()
    assert world.run is not None
    assert (world.run.status.phase, world.run.status.message) == ("Failed", "wrong password")


def test_workers_that_others_delete_do_not_come_again_for_ever(world: World) -> None:
    ready(world)
    for _ in range(8):
        world.pods.clear()
        world.settle()
    assert world.run is not None
    assert world.run.status.phase == "Failed"
    assert world.run.status.attempts == 5


def test_a_failed_snapshot_fails_the_backup_with_its_word(world: World) -> None:
    world.settle()
    world.have_snapshot(ready=False, phase="Failed", error={"message": "the disk is full"})
    world.settle()
    assert world.run is not None
    assert world.run.status.phase == "Failed"
    assert "the disk is full" in world.run.status.message
    assert world.snapshot is None


def test_a_snapshot_that_somebody_deletes_fails_the_backup(world: World) -> None:
    ready(world)
    world.snapshot = world.content = None
    world.settle()
    assert world.run is not None
    assert world.run.status.phase == "Failed"
    assert "somebody has deleted it" in world.run.status.message


def test_a_backup_that_takes_too_long_fails_with_what_it_waited_for() -> None:
    world = World()
    world.ask_backup(deadline="1h")
    world.repository = None
    plan = world.settle()
    assert plan.again_after is not None
    assert world.run is not None
    assert world.run.status.message == "BackupRepository usb does not exist"
    world.wait(3601)
    world.settle()
    assert world.run.status.phase == "Failed"
    assert "BackupRepository usb does not exist" in world.run.status.message


def test_another_backup_of_the_vm_goes_first(world: World) -> None:
    world.rival = "earlier"
    world.settle()
    assert world.run is not None
    assert "earlier" in world.run.status.message
    assert world.snapshot is None


def test_a_refusal_of_the_server_is_told_and_tried_again(world: World) -> None:
    world.refusal = "exceeded quota: pods"
    plan = world.settle()
    assert world.run is not None
    assert world.run.status.message == "exceeded quota: pods"
    assert plan.again_after is not None


def test_a_vm_whose_documents_are_too_long_is_refused_with_the_remedy(world: World) -> None:
    world.settle()
    world.have_snapshot()
    assert world.content is not None
    assert world.content.spec.source.virtual_machine is not None
    world.content.spec.source.virtual_machine["metadata"]["annotations"] = {"long": "x" * (200 << 10)}
    world.settle()
    assert world.run is not None
    assert world.run.status.phase == "Failed"
    assert "shorten its annotations" in world.run.status.message
