"""How a backup comes back, step by step."""

from __future__ import annotations

import pytest

from kvedge.resources.types.protection.backup_job import BackupOutcome
from tests.support.builders import a_claim
from tests.unit.controller.backups.backup_world import GIB, RESTORE_UID, UID, World, a_record

ROOT, DATA = f"restore-{RESTORE_UID}-root", f"restore-{RESTORE_UID}-data"


@pytest.fixture
def world() -> World:
    found = World()
    found.vm = None
    found.ask_restore()
    return found


def read(world: World) -> World:
    world.settle("restore")
    world.record = a_record()
    world.settle("restore")
    world.record = None
    return world


def test_the_record_is_read_first_by_a_worker_that_knows_a_token(world: World) -> None:
    world.settle("restore")
    job = world.job("read")
    assert (job.mode, job.vm, job.namespace, job.backup_id, job.token) == ("read", "web", "default", "", "token")
    assert world.claims == {}


def test_claims_like_the_old_ones_are_filled_by_a_second_worker(world: World) -> None:
    read(world)
    assert set(world.claims) == {ROOT, DATA}
    assert world.claims[DATA].is_block
    assert world.claims[ROOT].spec.storage_class_name == "disks"
    # They go with the restore until the VM is there.
    assert {owner.uid for claim in world.claims.values() for owner in claim.metadata.owner_references} == {RESTORE_UID}
    job = world.job("restore")
    assert (job.mode, job.backup_id) == ("restore", UID)
    assert [(each.name, each.block, each.size, each.uid) for each in job.volumes] == [
        ("root", False, GIB, f"uid-of-{ROOT}"),
        ("data", True, GIB, f"uid-of-{DATA}"),
    ]
    assert f"read-{RESTORE_UID}" not in world.pods
    assert world.vm is None


def test_the_vm_is_made_last_and_owns_its_disks(world: World) -> None:
    read(world)
    world.end("restore", BackupOutcome(size=2 * GIB))
    world.settle("restore")
    assert world.vm is not None
    assert world.vm.spec.run_strategy == "Halted"
    assert world.vm.metadata.labels == {"tier": "shop"}
    assert world.vm.spec.template is not None
    volumes = {each.name: each for each in world.vm.spec.template.spec.volumes}
    assert volumes["root"].persistent_volume_claim is not None
    assert volumes["root"].persistent_volume_claim.claim_name == ROOT
    assert volumes["tools"].container_disk is not None
    # A template would fill the old disk anew.
    assert world.vm.spec.data_volume_templates == []
    owners = {owner.uid for claim in world.claims.values() for owner in claim.metadata.owner_references}
    assert owners == {"uid-of-the-new-one"}
    assert world.restore is not None
    assert world.restore.status.phase == "Succeeded"
    assert world.restore.status.content is None
    assert world.pods == {}


def test_another_name_and_another_class_are_given(world: World) -> None:
    world.ask_restore(targetName="web2", storageClassName="fast", backupID=UID, vmNamespace="old")
    read(world)
    assert world.job("restore").namespace == "old"
    assert {claim.spec.storage_class_name for claim in world.claims.values()} == {"fast"}
    world.end("restore", BackupOutcome())
    world.settle("restore")
    assert world.vm is not None
    assert world.vm.metadata.name == "web2"


def test_a_vm_that_is_there_is_never_touched() -> None:
    world = World()
    world.ask_restore()
    world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Failed"
    assert "VM web exists" in world.restore.status.message
    assert (world.claims, world.pods) == ({}, {})


def test_a_claim_of_somebody_else_is_never_filled(world: World) -> None:
    read(world)
    world.pods.clear()
    world.claims[ROOT].metadata.annotations.clear()
    world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Failed"
    assert ROOT in world.restore.status.message


def test_a_failed_worker_is_tried_again_and_then_it_fails(world: World) -> None:
    read(world)
    for _ in range(5):
        world.end("restore", BackupOutcome(message="no route to host"), well=False)
        world.settle("restore")
        world.wait(301)
        world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Failed"
    assert world.restore.status.message == "no route to host"
    # Its claims go with it; nothing that could be a disk of somebody is deleted here.
    assert set(world.claims) == {ROOT, DATA}
    assert world.vm is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"volumes": []}, "it has the disks none"),
        ({"volumes": [{"name": "root", "place": "", "size": 1}] * 2}, "it has the disks root, root"),
        ({"content": {"source": {"virtualMachine": {"spec": {"template": 7}}}, "volumeBackups": []}}, "the disks"),
        ({"volumes": [], "content": {"source": {"virtualMachine": {"spec": {"template": 7}}}}}, "cannot be used"),
    ],
    ids=["no disks", "a disk twice", "other disks", "no VM"],
)
def test_a_record_that_does_not_fit_fails_and_makes_nothing(
    world: World, changed: dict[str, object], words: str
) -> None:
    world.settle("restore")
    world.record = a_record(**changed)
    world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Failed"
    assert words in world.restore.status.message
    assert world.claims == {}
    assert world.pods == {}


def test_a_reader_that_ends_without_having_been_asked_fails(world: World) -> None:
    world.settle("restore")
    world.end("read", BackupOutcome(message="Record Read"))
    world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Failed"


def test_killed_between_the_vm_and_its_owners_it_goes_on(world: World) -> None:
    read(world)
    world.end("restore", BackupOutcome())
    plan = world.look_at_restore()
    freed, made = plan.actions[:-1], plan.actions[-1]
    assert len(freed) == 2
    for action in (*freed, made):
        world._do(action)
    # Nobody's for a moment: they outlive the restore, should it go now.
    assert not any(claim.metadata.owner_references for claim in world.claims.values())
    world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Succeeded"


def test_one_disk_comes_back_alone_as_the_claim_that_was_named() -> None:
    world = World()
    world.ask_restore(volumes=[{"volumeName": "data", "claimName": "old-data"}])
    read(world)
    assert world.vm is not None, "the VM is there, and stays as it is"
    assert set(world.claims) == {"old-data"}
    assert [(each.name, each.block) for each in world.job("restore").volumes] == [("data", True)]
    world.end("restore", BackupOutcome(size=GIB))
    world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Succeeded"
    assert world.claims["old-data"].metadata.owner_references == []
    assert world.vm.metadata.name == "web"
    assert world.pods == {}


def test_a_claim_that_is_there_is_not_filled_with_a_disk() -> None:
    world = World()
    world.ask_restore(volumes=[{"volumeName": "root", "claimName": "mine"}])
    world.claims["mine"] = a_claim("mine")
    read(world)
    assert world.restore is not None
    assert world.restore.status.phase == "Failed"
    assert "claim mine exists" in world.restore.status.message
    assert world.pods == {}


def test_a_disk_that_the_backup_has_not_is_told_with_those_that_it_has() -> None:
    world = World()
    world.ask_restore(volumes=[{"volumeName": "boot"}])
    read(world)
    assert world.restore is not None
    assert "it has no disk boot: it has root, data" in world.restore.status.message
    assert world.claims == {}
