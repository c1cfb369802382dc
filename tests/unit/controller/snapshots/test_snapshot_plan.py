# Tests: kvedge/controller/snapshots/content_plan.py, kvedge/controller/snapshots/source_lock.py
# Tests: kvedge/controller/snapshots/volume_copies.py, kvedge/controller/snapshots/snapshot_status.py
# Tests: kvedge/controller/snapshots/snapshot_report.py
# Tests: kvedge/controller/snapshots/snapshot_actions.py, kvedge/controller/snapshots/snapshot_view.py
"""What becomes of a snapshot, its VM and its copies."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.data_volume_names import PRE_POPULATED
from kvedge.resources.disks.snapshot_names import COMES_BACK, METHOD, SEALED_CLAIM, SOURCE_FINALIZER
from kvedge.resources.types.storage import VolumeResources
from kvedge.resources.types.vm import VolumeMigrationState, VolumeUpdateState
from kvedge.resources.types.volumes import HostDisk, Volume
from tests.support.builders import a_claim
from tests.unit.controller.snapshots.snapshot_world import COPIES, UID, World


def status(world: World) -> Any:
    assert world.snapshot is not None
    return world.snapshot.status


def the_vm_of(world: World) -> Any:
    assert world.vm is not None
    return world.vm


def is_locked(world: World) -> bool:
    return (
        bool(the_vm_of(world).status.snapshot_in_progress) and SOURCE_FINALIZER in the_vm_of(world).metadata.finalizers
    )


def test_a_stopped_vm_is_locked_until_all_its_copies_are_complete():
    world = World()
    world.settle()
    assert is_locked(world)
    assert list(world.volumes) == ["web-root", *COPIES.values()]
    assert status(world).phase == "InProgress"
    assert (world.reason(), world.reason(type_="Ready")) == ("Source locked and operation in progress", "Not ready")
    world.fill(COPIES["root"])
    world.fill(COPIES["data"], phase="CloneInProgress")
    world.settle()
    assert is_locked(world)
    assert not status(world).ready_to_use
    world.fill(COPIES["data"])
    world.settle()
    assert (status(world).phase, status(world).ready_to_use) == ("Succeeded", True)
    assert (world.reason(), world.reason(type_="Ready")) == ("Operation complete", "Ready")
    assert status(world).indications == []
    assert status(world).snapshot_volumes.included_volumes == ["root", "data"]
    assert status(world).snapshot_volumes.excluded_volumes == ["tools"]
    assert not the_vm_of(world).status.snapshot_in_progress
    assert SOURCE_FINALIZER not in the_vm_of(world).metadata.finalizers
    assert [each.reason for each in world.told] == [
        "SuccessfulVirtualMachineSnapshotContentCreate",
        "SuccessfulVolumeSnapshotCreate",
        "SuccessfulVolumeSnapshotCreate",
    ]


def test_a_content_says_what_was_copied_and_how():
    world = World()
    world.settle()
    content = world.content
    assert content is not None
    assert content.metadata.name == f"vmsnapshot-content-{UID}"
    assert content.metadata.annotations == {METHOD: "claim-copies"}
    assert content.metadata.owner_references == []
    source = content.spec.source.virtual_machine
    assert source is not None
    assert source["spec"]["runStrategy"] == "Halted"
    assert "status" not in source
    assert [each.volume_snapshot_name for each in content.spec.volume_backups] == list(COPIES.values())
    assert content.spec.volume_backups[1].persistent_volume_claim.metadata["name"] == "web-data"


def test_a_copy_is_a_claim_like_the_one_that_it_is_made_of():
    world = World()
    world.claims["web-data"] = a_claim("web-data", storage_class_name="fast", volume_mode="Block")
    world.claims["web-data"].spec.resources = VolumeResources(requests={"storage": "1Gi"})
    world.claims["web-data"].status.capacity = {"storage": "3Gi"}
    world.settle()
    made = world.volumes[COPIES["data"]]
    assert made.spec.source is not None
    assert made.spec.source.pvc is not None
    assert made.spec.source.pvc.name == "web-data"
    assert made.spec.pvc is not None
    assert (made.spec.pvc.storage_class_name, made.spec.pvc.volume_mode) == ("fast", "Block")
    assert made.spec.pvc.resources.requests == {"storage": str(3 << 30)}
    owner = made.metadata.controller_reference()
    assert owner is not None
    assert owner.kind == "VirtualMachineSnapshotContent"


def test_a_disk_that_may_fill_its_claim_gets_a_copy_with_room_beside_it():
    world = World()
    world.settle()
    made = world.volumes[COPIES["data"]].spec
    assert made.pvc is None
    assert made.storage is not None
    assert made.storage.resources.requests == {"storage": str(10 << 30)}


def _break(world: World, what: str) -> None:
    vm = the_vm_of(world)
    match what:
        case "missing":
            del world.claims["web-data"]
        case "pending":
            world.claims["web-data"].status.phase = "Pending"
        case "going":
            world.claims["web-data"].metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
        case "without a class":
            world.claims["web-data"].spec.storage_class_name = ""
        case "coming back":
            world.claims["web-data"].metadata.annotations[COMES_BACK] = "true"
        case "starting":
            world.run()
            assert world.vmi is not None
            world.vmi.status.phase = "Scheduled"
        case "pods":
            world.pods = ["virt-launcher-a", "virt-launcher-b"]
        case "snapshot":
            vm.status.snapshot_in_progress = "other"
        case "restore":
            vm.status.restore_in_progress = "other"
        case "exchanged":
            vm.status.volume_update_state = VolumeUpdateState(volume_migration_state=VolumeMigrationState())
        case "deleting":
            vm.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("missing", "source default/web volume doesnt exist: data"),
        ("pending", "source default/web volume not bound: data"),
        ("going", "source default/web volume is being deleted: data"),
        ("without a class", "source default/web volume has no StorageClass, which would make the claim of its copy: "
         "data"),
        ("coming back", "source default/web volume still comes back from its backup"),
        ("starting", "source default/web is starting"),
        ("pods", "source default/web is offline but 2 pods using PVCs [virt-launcher-a virt-launcher-b]"),
        ("snapshot", 'snapshot "other" in progress'),
        ("restore", 'restore "other" in progress'),
        ("deleting", "source default/web is being deleted"),
        ("exchanged", "source default/web has volumes that are exchanged, or that are incomplete"),
    ],
)  # fmt: skip
def test_a_snapshot_that_cannot_begin_says_why_and_fails_in_time(what: str, words: str):
    world = World()
    _break(world, what)
    plan = world.settle()
    assert world.reason().startswith(f"Source not locked {words}")
    assert plan.again_after is not None
    assert plan.again_after <= 5
    assert not is_locked(world)
    assert world.content is None
    world.wait(301)
    world.settle()
    assert status(world).phase == "Failed"
    assert world.reason(type_="Failure") == "snapshot deadline exceeded"
    assert words in status(world).error.message


def test_a_snapshot_may_be_there_before_its_vm():
    world = World()
    vm, world.vm = world.vm, None
    world.settle()
    assert world.reason() == "Source does not exist"
    world.vm = vm
    world.settle()
    assert is_locked(world)


@pytest.mark.parametrize(
    ("deadline", "phase", "restarts", "outcome"),
    [
        (None, "CloneInProgress", 0, "InProgress"),
        (None, "CloneInProgress", 1, "Failed"),
        (None, "CloneScheduled", 0, "Failed"),
        ("30s", "CloneInProgress", 0, "Failed"),
        ("0s", "CloneScheduled", 7, "InProgress"),
        ("1h", "CloneScheduled", 0, "InProgress"),
    ],
)
def test_copies_that_go_well_have_the_time_that_they_need_unless_somebody_says_otherwise(
    deadline: str | None, phase: str, restarts: int, outcome: str
):
    world = World(**({} if deadline is None else {"failureDeadline": deadline}))
    world.settle()
    world.fill(*COPIES.values(), phase=phase, restarts=restarts, message="no space left")
    world.settle()
    world.wait(301)
    world.settle()
    assert status(world).phase == outcome
    if outcome == "Failed":
        assert "no space left" in status(world).error.message
        # Nothing of it is left, and the VM goes on.
        assert not the_vm_of(world).status.snapshot_in_progress
        assert world.content is None


def _disturb(world: World, what: str) -> None:
    match what:
        case "started":
            world.run()
        case "a pod":
            world.pods = ["virt-launcher-a"]
        case "unlocked":
            the_vm_of(world).status.snapshot_in_progress = None
        case "failed":
            world.fill(COPIES["data"], phase="Failed", message="it is too large")
        case "content gone":
            world.delete("content")
        case "vm gone":
            world.vm = None
        case "another vm":
            the_vm_of(world).metadata.uid = "another"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("started", "the VM was started while its disks were copied"),
        ("a pod", "the VM was started while its disks were copied"),
        ("unlocked", "the VM was unlocked while its disks were copied"),
        ("failed", f"copy failed: {COPIES['data']}: it is too large"),
        ("content gone", "its VirtualMachineSnapshotContent was deleted"),
        ("vm gone", "the VM is gone"),
        ("another vm", "the VM is gone"),
    ],
)
def test_copies_that_are_no_one_point_in_time_are_no_snapshot(what: str, words: str):
    world = World()
    world.settle()
    world.fill(COPIES["root"])
    world.fill(COPIES["data"], phase="CloneInProgress")
    world.settle()
    _disturb(world, what)
    world.settle()
    assert (status(world).phase, status(world).ready_to_use) == ("Failed", False)
    assert status(world).error.message == words
    assert world.content is None


def test_what_the_server_refuses_is_told_and_tried_again():
    world = World()
    world.settle()
    del world.volumes[COPIES["data"]]
    world.refusal = "exceeded quota"
    plan = world.look()
    assert any(getattr(action, "item", None).metadata.name == COPIES["data"] for action in plan.actions[:1])
    assert plan.again_after == 5
    world.settle()
    assert world.content is not None
    assert world.content.status.error is not None
    assert world.content.status.error.message == "exceeded quota"


def test_a_complete_copy_is_never_filled_again():
    world = World()
    world.take()
    for name in COPIES.values():
        assert world.volumes[name].metadata.annotations[PRE_POPULATED] == name
        assert world.volumes[name].metadata.annotations[SEALED_CLAIM] == f"uid-of-{name}"


def test_a_clock_that_is_put_back_loses_no_snapshot():
    world = World()
    world.settle()
    world.fill(*COPIES.values())
    world.wait(-3600)
    world.settle()
    world.settle()
    assert status(world).ready_to_use


def test_a_copy_whose_claim_is_not_seen_yet_is_not_sealed():
    world = World()
    world.settle()
    world.fill(*COPIES.values())
    claim = world.claims.pop(COPIES["data"])
    world.settle()
    assert status(world).phase == "InProgress"
    world.claims[COPIES["data"]] = claim
    world.settle()
    assert status(world).ready_to_use


@pytest.mark.parametrize("what", ["volume", "claim", "another claim", "claim that goes"])
def test_a_copy_that_is_lost_is_told(what: str):
    world = World()
    world.take()
    name = COPIES["data"]
    match what:
        case "volume":
            del world.volumes[name]
        case "claim":
            del world.claims[name]
        case "another claim":
            world.claims[name].metadata.uid = "another"
        case "claim that goes":
            world.claims[name].metadata.deletion_timestamp = "2027-01-01T00:00:00Z"
    world.settle()
    assert (status(world).phase, status(world).ready_to_use) == ("Succeeded", False)
    assert status(world).error.message == f"VolumeSnapshots ({name}) missing"
    assert world.reason() == "In error state"
    assert world.told[-1].reason == "VolumeSnapshotMissing"


def test_files_of_the_node_are_left_out_and_said_to_be():
    world = World()
    spec = the_vm_of(world).spec.template.spec
    spec.volumes.append(Volume(name="host", host_disk=HostDisk(path="/srv/a.img", type="Disk")))
    world.take()
    assert status(world).indications == ["PartialSnapshot"]
    assert status(world).source_indications[0].indication == "PartialSnapshot"
    assert status(world).snapshot_volumes.excluded_volumes == ["tools", "host"]


@pytest.mark.parametrize(("policy", "is_left"), [(None, False), ("Delete", False), ("Retain", True)])
def test_a_snapshot_goes_with_its_copies_unless_they_are_to_stay(policy: str | None, is_left: bool):
    world = World(**({} if policy is None else {"deletionPolicy": policy}))
    world.take()
    world.delete("snapshot")
    world.settle()
    assert world.snapshot is None
    assert (world.content is not None) is is_left


def test_a_snapshot_that_is_deleted_on_its_way_lets_go_of_its_vm_and_leaves_nothing():
    world = World(deletionPolicy="Retain")
    world.settle()
    world.delete("snapshot")
    world.settle()
    assert world.snapshot is None
    assert world.content is None
    assert not the_vm_of(world).status.snapshot_in_progress
    assert SOURCE_FINALIZER not in the_vm_of(world).metadata.finalizers


def test_a_controller_that_dies_at_any_step_leaves_no_finalizer_behind():
    for step in range(1, 12):
        world = World()
        for _ in range(step):
            plan = world.look()
            if plan.actions:
                world._do(plan.actions[0])
        world.delete("snapshot")
        world.settle()
        assert world.snapshot is None, step
        assert not the_vm_of(world).status.snapshot_in_progress, step
        assert SOURCE_FINALIZER not in the_vm_of(world).metadata.finalizers, step


def test_the_lock_of_another_snapshot_is_left_alone():
    world = World()
    the_vm_of(world).status.snapshot_in_progress = "other"
    the_vm_of(world).metadata.finalizers = [SOURCE_FINALIZER]
    world.settle()
    world.delete("snapshot")
    world.settle()
    assert is_locked(world)
