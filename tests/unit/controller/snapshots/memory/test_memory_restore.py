# Tests: kvedge/controller/snapshots/memory/memory_backup.py
"""A snapshot with memory, and what a restore of it says to the VM's next start."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import encode
from kvedge.resources.disks.snapshot_names import MEMORY_CLASS, RESTORE_MEMORY, SEALED_CLAIM, SNAPSHOT_MEMORY
from kvedge.resources.types.vmi import BackupStatus, ChangedBlockTracking
from kvedge.resources.values.saved_memory import RESUME_MEMORY, read_resume
from kvedge.runtime.clock import rfc3339
from tests.support.builders import a_claim
from tests.unit.controller.snapshots.snapshot_world import COPIES, NEW, RESTORE_UID, UID, World

MEMORY = f"vmsnapshot-{UID}-memory"
RESTORED = f"restore-{RESTORE_UID}-memory"


@pytest.fixture
def world() -> World:
    """A VM that runs with disks that last, and a snapshot of it that is to have its memory."""
    made = World()
    assert made.vm is not None
    assert made.vm.spec.template is not None
    assert made.snapshot is not None
    spec = made.vm.spec.template.spec
    spec.volumes = [each for each in spec.volumes if each.container_disk is None]
    made.snapshot.metadata.annotations[SNAPSHOT_MEMORY] = "true"
    made.run()
    return made


def answer(world: World, **told: Any) -> None:
    assert world.vmi is not None
    assert world.vmi.status.disk_copy is not None
    status = BackupStatus(backup_name=world.vmi.status.disk_copy.name, **told)
    world.vmi.status.changed_block_tracking = ChangedBlockTracking(backup_status=status)


def take(world: World) -> None:
    world.settle()
    answer(world, start_timestamp=rfc3339(world.now), completed=True, downtime_milliseconds=1500)
    world.settle()
    assert world.snapshot is not None
    assert world.snapshot.status.phase == "Succeeded", world.snapshot.status


def stop(world: World) -> None:
    world.vmi = None


def fill(world: World, *names: str) -> None:
    world.fill(*names)
    world.settle_restore()


def word_of(world: World) -> str | None:
    assert world.vm is not None
    return world.vm.metadata.annotations.get(RESUME_MEMORY)


def test_the_memory_gets_a_claim_beside_the_disks_and_one_copy_has_both(world: World) -> None:
    world.settle()
    assert world.vmi is not None
    claim = world.claims[MEMORY]
    assert (claim.spec.storage_class_name, claim.spec.volume_mode) == ("disks", "Filesystem")
    assert claim.metadata.owner_references[0].name == f"vmsnapshot-content-{UID}"
    asked = world.vmi.status.disk_copy
    assert asked is not None
    brought = {each.name: each.claim_name for each in world.vmi.spec.utility_volumes}
    assert brought[asked.memory] == MEMORY
    assert {each.volume_name: brought[each.copy_name] for each in asked.volumes} == COPIES


def test_the_memorys_claim_has_the_class_that_is_asked_for(world: World) -> None:
    assert world.snapshot is not None
    world.snapshot.metadata.annotations[MEMORY_CLASS] = "fast"
    world.settle()
    assert world.claims[MEMORY].spec.storage_class_name == "fast"


def test_the_downtime_is_told_and_all_leaves_the_launcher(world: World) -> None:
    take(world)
    assert world.snapshot is not None
    assert world.vmi is not None
    assert world.snapshot.status.indications == ["Online", "Memory"]
    assert "downtime 1500 ms" in (world.snapshot.status.source_indications[-1].message or "")
    assert world.claims[MEMORY].metadata.annotations[SEALED_CLAIM] == world.claims[MEMORY].metadata.uid
    assert not world.vmi.spec.utility_volumes
    assert world.snapshot.status.snapshot_volumes is not None
    assert world.snapshot.status.snapshot_volumes.included_volumes == ["root", "data"]


def test_a_snapshot_with_lost_memory_is_not_ready(world: World) -> None:
    take(world)
    del world.claims[MEMORY]
    world.settle()
    assert world.snapshot is not None
    assert not world.snapshot.status.ready_to_use
    assert MEMORY in encode(world.snapshot)["status"]["error"]["message"]


def test_memory_of_a_stopped_vm_fails_the_snapshot_and_makes_nothing(world: World) -> None:
    stop(world)
    world.settle()
    assert world.snapshot is not None
    assert world.snapshot.status.phase == "Failed"
    assert world.content is None
    assert world.vm is not None
    assert not world.vm.status.snapshot_in_progress


def test_drivers_take_no_snapshot_with_memory(world: World) -> None:
    take(world)
    assert world.driver_snapshots == {}


def test_the_memory_is_copied_after_the_disks_and_comes_with_them_in_one_write(world: World) -> None:
    take(world)
    stop(world)
    world.ask_restore()
    world.settle_restore()
    assert RESTORED not in world.volumes
    fill(world, NEW["root"])
    assert RESTORED not in world.volumes
    fill(world, NEW["data"])
    assert RESTORED in world.volumes
    assert word_of(world) is None
    fill(world, RESTORED)
    word = word_of(world)
    assert word is not None
    assert read_resume({RESUME_MEMORY: word}, NEW) == RESTORED
    assert world.restore is not None
    assert world.restore.status.complete


def test_used_memory_goes_and_unused_memory_stays(world: World) -> None:
    take(world)
    stop(world)
    world.ask_restore()
    world.settle_restore()
    fill(world, *NEW.values())
    fill(world, RESTORED)
    assert RESTORED in world.volumes
    assert world.vm is not None
    del world.vm.metadata.annotations[RESUME_MEMORY]
    world.settle_restore()
    assert RESTORED not in world.volumes
    assert NEW["root"] in world.volumes


def test_a_restore_without_memory_says_so_and_takes_the_word_of_an_earlier_one_away(world: World) -> None:
    take(world)
    stop(world)
    assert world.vm is not None
    world.vm.metadata.annotations[RESUME_MEMORY] = "earlier 1"
    world.ask_restore()
    assert world.restore is not None
    world.restore.metadata.annotations[RESTORE_MEMORY] = "false"
    world.settle_restore()
    fill(world, *NEW.values())
    assert world.restore.status.complete
    assert word_of(world) is None
    assert any(each.reason == "MemoryLeftOut" and "as the restore says" in each.message for each in world.told)


def test_another_vm_gets_no_memory_and_the_restore_says_so(world: World) -> None:
    take(world)
    world.ask_restore("other")
    world.settle_restore()
    fill(world, *NEW.values())
    assert RESTORED not in world.volumes
    assert world.vm is not None
    assert world.vm.metadata.name == "other"
    assert word_of(world) is None
    assert any(each.reason == "MemoryLeftOut" and "that it was taken of" in each.message for each in world.told)


def test_memory_that_is_gone_fails_the_restore(world: World) -> None:
    take(world)
    stop(world)
    world.ask_restore()
    world.settle_restore()
    world.claims[MEMORY] = a_claim(MEMORY)
    world.fill(*NEW.values())
    world.settle_restore()
    assert world.restore is not None
    assert world.restore.has_failed
    assert MEMORY in world.reason("restore", "Failure")
