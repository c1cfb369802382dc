# Tests: kvedge/controller/backups/live_return.py, kvedge/controller/backups/restore_plan.py
"""A VM that starts from its backup: its worker is there while the guest needs it, and nothing ends too early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvedge.controller.backups.worker_pods import job_of
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.snapshot_names import COMES_BACK, RETURN_FINALIZER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import BackupOutcome, BackupRecord, LiveState
from tests.unit.controller.backups.backup_world import GIB, RESTORE_UID, World, a_record

ROOT = f"restore-{RESTORE_UID}-root"
WORKER = f"serve-{RESTORE_UID}"
VM_UID = "uid-of-the-new-one"


def live_record(change: Callable[[JsonObject, JsonObject], Any] | None = None) -> BackupRecord:
    """A backup with one disk, in a file system."""
    record = encode(a_record())
    record["volumes"] = record["volumes"][:1]
    backup = record["content"]["volumeBackups"][0]
    record["content"]["volumeBackups"] = [backup]
    guest = record["content"]["source"]["virtualMachine"]["spec"]["template"]["spec"]
    guest["domain"].setdefault("devices", {})["disks"] = [{"name": "root", "disk": {"bus": "virtio"}}]
    if change is not None:
        change(backup, guest)
    record["volumes"][0]["name"] = backup["volumeName"]
    return decode(BackupRecord, record)


def two_disks() -> BackupRecord:
    record = encode(live_record())
    more = encode(a_record())
    record["volumes"] = [more["volumes"][0], {**more["volumes"][0], "name": "data"}]
    backup = record["content"]["volumeBackups"][0]
    record["content"]["volumeBackups"].append({**backup, "volumeName": "data"})
    guest = record["content"]["source"]["virtualMachine"]["spec"]["template"]["spec"]
    guest["domain"]["devices"]["disks"].append({"name": "data", "disk": {"bus": "virtio"}})
    return decode(BackupRecord, record)


def begin(record: BackupRecord | None = None, **spec: Any) -> World:
    world = World()
    world.vm = None
    world.ask_restore(live=True, **spec)
    world.settle("restore")
    world.record = record or live_record()
    world.settle("restore")
    world.record = None
    return world


def run_worker(world: World, **state: Any) -> None:
    pod = encode(world.pods[WORKER])
    world.pods[WORKER] = decode(Pod, {**pod, "status": {"phase": "Running", "podIP": "10.0.0.9"}})
    world.live = LiveState(**state)
    world.settle("restore")


def running() -> World:
    world = begin()
    run_worker(world, ready=True)
    return world


def owners(world: World) -> set[str]:
    return {owner.uid for claim in world.claims.values() for owner in claim.metadata.owner_references}


def test_the_vm_is_not_made_before_the_worker_serves_its_disks() -> None:
    world = begin()
    job = world.job("serve")
    assert (job.mode, job.token) == ("serve", "token")
    assert [(each.name, each.size, each.uid) for each in job.volumes] == [("root", GIB, f"uid-of-{ROOT}")]
    assert COMES_BACK in world.claims[ROOT].metadata.annotations
    run_worker(world)
    assert world.vm is None
    run_worker(world, ready=True)
    assert world.vm is not None
    assert world.vm.spec.run_strategy == "Always"
    assert world.restore is not None
    assert world.restore.status.phase == "Running"
    # Whoever deletes the restore now must not take the disks of a guest that runs.
    assert owners(world) == {VM_UID}
    assert RETURN_FINALIZER in world.restore.metadata.finalizers


def test_it_tells_how_far_it_is_and_what_it_waits_for() -> None:
    world = running()
    assert world.restore is not None
    world.progress = "12.50%"
    world.settle("restore")
    assert world.restore.status.progress == "12.50%"
    assert "copied behind" in world.restore.status.message
    run_worker(world, ready=True, message="the server is away")
    assert world.restore.status.message.endswith("the server is away")
    assert world.restore.reads
    world.progress = "100.00%"
    run_worker(world, ready=True, complete=True)
    assert "stopped and started next" in world.restore.status.message
    assert not world.restore.reads


def test_a_worker_that_ends_is_followed_by_another_one_however_often() -> None:
    world = running()
    for _ in range(12):
        world.end("serve", BackupOutcome(message="killed", fatal=True), well=False)
        world.live = None
        world.settle("restore")
        assert WORKER not in world.pods
        world.wait(5)
        world.settle("restore")
        assert world.restore is not None
        assert world.restore.status.phase == "Running"
        assert world.pods[WORKER].status.phase != "Failed"
        run_worker(world, ready=True)


def test_the_restore_is_over_once_the_worker_says_that_nobody_needs_it() -> None:
    world = running()
    world.end("serve", BackupOutcome())
    world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Succeeded"
    assert COMES_BACK not in world.claims[ROOT].metadata.annotations
    assert RETURN_FINALIZER not in world.restore.metadata.finalizers
    assert world.pods == {}


def test_a_small_disk_that_is_there_before_the_vm_is_one_like_any_other() -> None:
    world = begin()
    world.end("serve", BackupOutcome())
    world.settle("restore")
    assert world.vm is not None
    assert world.vm.spec.run_strategy == "Always"
    assert world.restore is not None
    assert world.restore.status.phase == "Succeeded"
    assert owners(world) == {VM_UID}


def test_a_restore_that_is_deleted_stays_until_its_guest_does_not_need_it() -> None:
    world = running()
    assert world.restore is not None
    world.restore.metadata.deletion_timestamp = "2026-01-02T03:04:05Z"
    world.end("serve", BackupOutcome(message="killed"), well=False)
    world.settle("restore")
    world.wait(5)
    world.settle("restore")
    assert WORKER in world.pods
    assert RETURN_FINALIZER in world.restore.metadata.finalizers
    world.end("serve", BackupOutcome())
    world.settle("restore")
    assert RETURN_FINALIZER not in world.restore.metadata.finalizers


def test_a_vm_that_was_deleted_is_not_made_again() -> None:
    world = running()
    world.vm = None
    for claim in world.claims.values():
        claim.metadata.deletion_timestamp = "2026-01-02T03:04:05Z"
    world.settle("restore")
    assert world.restore is not None
    assert (world.vm, world.restore.status.phase, world.pods) == (None, "Failed", {})
    assert "was deleted" in world.restore.status.message
    assert RETURN_FINALIZER not in world.restore.metadata.finalizers


@pytest.mark.parametrize("another", [True, False], ids=["another VM of its name", "no VM"])
def test_disks_that_stay_without_their_vm_are_served_on(another: bool) -> None:
    """Somebody deleted the VM and kept what it had: what the guest wrote is in these claims alone."""
    world = running()
    assert world.vm is not None
    if another:
        world.vm.metadata.uid = "of-another"
    else:
        world.vm = None
    world.pods.clear()
    world.settle("restore")
    assert world.restore is not None
    assert (world.restore.status.phase, list(world.pods)) == ("Running", [WORKER])
    # Somebody deletes the restore, too: what is in them would be reached by nobody any more.
    world.restore.metadata.deletion_timestamp = "2026-01-02T03:04:05Z"
    world.settle("restore")
    assert RETURN_FINALIZER in world.restore.metadata.finalizers
    world.end("serve", BackupOutcome())
    world.settle("restore")
    # No VM is made again, and another one of the name does not get them.
    assert (world.vm is not None) is another
    assert owners(world) == {VM_UID}
    assert RETURN_FINALIZER not in world.restore.metadata.finalizers


def test_a_backup_that_cannot_be_read_any_more_ends_no_service() -> None:
    """As after an upgrade to a version that is stricter."""
    world = running()
    assert world.restore is not None
    world.restore.status.content = {"source": {"virtualMachine": "none"}}
    world.pods.clear()
    world.settle("restore")
    assert (world.restore.status.phase, list(world.pods)) == ("Running", [WORKER])


def test_a_claim_that_was_deleted_is_served_no_more_and_the_others_are() -> None:
    world = begin(two_disks())
    run_worker(world, ready=True)
    assert world.restore is not None
    gone = world.restore.status.volumes[1].claim_name
    del world.claims[gone]
    world.pods.clear()
    world.settle("restore")
    job = job_of(world.pods[WORKER])
    assert job is not None
    assert [each.name for each in job.volumes] == ["root"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda claim, guest: claim["persistentVolumeClaim"]["spec"].update(volumeMode="Block"), "mode Block"),
        (
            lambda claim, guest: claim["persistentVolumeClaim"]["spec"].update(accessModes=["ReadWriteMany"]),
            "ReadWriteMany: guest and worker must be on one node",
        ),
        (lambda claim, guest: guest["domain"]["devices"].update(disks=[]), "is no disk of the guest"),
        (lambda claim, guest: guest["domain"]["devices"]["disks"][0].update(shareable=True), "is shareable"),
        (
            lambda claim, guest: guest["volumes"].__setitem__(
                0, {"name": "root", "persistentVolumeClaim": {"claimName": "r", "hotpluggable": True}}
            ),
            "is hotpluggable",
        ),
        (lambda claim, guest: claim.update(volumeName=STATE_VOLUME), "it has the state of a TPM"),
        (
            lambda claim, guest: guest["domain"]["devices"]["disks"][0].update(errorPolicy="report"),
            "disk root has the errorPolicy report",
        ),
    ],
    ids=["a block claim", "a shared claim", "no disk", "a shareable disk", "a hotplugged one", "a TPM", "errors told"],
)
def test_what_cannot_start_from_its_backup_says_why_before_anything_is_made(
    change: Callable[[JsonObject, JsonObject], Any], words: str
) -> None:
    world = begin(live_record(change))
    assert world.restore is not None
    assert world.restore.status.phase == "Failed"
    assert words in world.restore.status.message
    assert "without spec.live" in world.restore.status.message
    assert (world.claims, world.vm) == ({}, None)
