# Tests: kvedge/controller/snapshots/restored_vm.py, kvedge/controller/snapshots/restore_report.py
# Tests: kvedge/controller/snapshots/restore_target.py
"""What becomes of a restore, its VM and the new disks."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.snapshots.restore_report import LOOK_SECONDS
from kvedge.controller.snapshots.snapshot_actions import PatchByOperations
from kvedge.resources.codec import decode
from kvedge.resources.disks.snapshot_names import LAST_RESTORE, UNPATCHED
from kvedge.resources.meta import OwnerReference
from kvedge.resources.types.data_volumes import DataVolumeTemplate
from kvedge.resources.types.protection.snapshots import SnapshotError
from kvedge.resources.types.vm import VirtualMachine, VolumeMigrationState, VolumeUpdateState
from kvedge.resources.types.vmi import ClaimInfo, MigratedVolume
from kvedge.resources.types.volumes import PersistentVolumeClaimSource, Volume
from tests.support.builders import VM_UID
from tests.unit.controller.snapshots.snapshot_world import COPIES, NEW, RESTORE_UID, World, the_vm


def taken(target: str = "web", **spec: Any) -> World:
    """A world with a snapshot, and a restore of it that has just been asked for."""
    world = World()
    world.take()
    world.ask_restore(target, **spec)
    return world


def status(world: World) -> Any:
    assert world.restore is not None
    return world.restore.status


def vm_of_world(world: World) -> VirtualMachine:
    assert world.vm is not None
    return world.vm


def disks(world: World) -> dict[str, str]:
    vm = vm_of_world(world)
    assert vm.spec.template is not None
    volumes = vm.spec.template.spec.volumes
    found = {each.name: each.data_volume.name for each in volumes if each.data_volume is not None}
    claims = [each for each in volumes if each.persistent_volume_claim is not None]
    return found | {each.name: each.persistent_volume_claim.claim_name for each in claims}  # type: ignore[union-attr]


OLD = {"root": "web-root", "data": "web-data"}


def test_the_old_disks_stay_until_all_new_ones_are_complete():
    world = taken()
    world.settle_restore()
    assert vm_of_world(world).status.restore_in_progress == "back"
    assert set(NEW.values()) < set(world.volumes)
    assert disks(world) == OLD
    assert world.reason("restore") == "Creating new PVCs"
    world.fill(NEW["root"])
    world.fill(NEW["data"], phase="CloneInProgress")
    world.settle_restore()
    assert disks(world) == OLD
    world.fill(NEW["data"])
    world.settle_restore()
    assert disks(world) == NEW
    assert status(world).complete
    assert status(world).restore_time == "2026-01-02T03:04:05Z"
    assert status(world).deleted_data_volumes == ["web-root"]
    assert "web-root" not in world.volumes
    assert (world.reason("restore"), world.reason("restore", "Ready")) == ("Operation complete", "Operation complete")
    vm = vm_of_world(world)
    assert not vm.status.restore_in_progress
    assert vm.metadata.annotations[LAST_RESTORE] == f"back-{RESTORE_UID}"
    assert vm.spec.data_volume_templates[0].metadata.name == NEW["root"]
    assert [each.reason for each in world.told][-1] == "VirtualMachineRestoreComplete"


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ({"run_strategy": "Always"}, ("Always", None)),
        ({"run_strategy": None, "running": True}, (None, False)),
    ],
)
def test_a_vm_gets_its_spec_back_but_for_how_it_runs(given: dict[str, Any], after: tuple[Any, Any]):
    world = taken()
    vm = vm_of_world(world)
    assert vm.spec.template is not None
    vm.spec.template.spec.hostname = "changed"
    for name, value in given.items():
        setattr(vm.spec, name, value)
    world.settle_restore()
    world.fill(*NEW.values())
    world.settle_restore()
    back = vm_of_world(world).spec
    assert back.template is not None
    assert back.template.spec.hostname == ""
    assert (back.run_strategy, back.running) == after


@pytest.mark.parametrize(
    ("policy", "at_once", "later"),
    [
        (None, "Waiting", "Failed"),
        ("WaitGracePeriod", "Waiting", "Failed"),
        ("WaitEventually", "Waiting", "Waiting"),
        ("FailImmediate", "Failed", "Failed"),
        ("StopTarget", "Copying", "Copying"),
    ],
)
def test_a_vm_that_runs_is_waited_for_or_stopped(policy: str | None, at_once: str, later: str):
    world = taken(**({} if policy is None else {"targetReadinessPolicy": policy}))
    world.run()

    def outcome() -> str:
        world.settle_restore()
        assert world.restore is not None
        if world.restore.has_failed:
            return "Failed"
        return "Copying" if world.reason("restore") == "Creating new PVCs" else "Waiting"

    assert outcome() == at_once
    assert bool(vm_of_world(world).status.restore_in_progress) is (at_once == "Copying")
    if policy == "StopTarget":
        assert world.vmi is None
    world.wait(301)
    assert outcome() == later
    assert disks(world) == OLD


def test_a_vm_that_was_started_before_it_was_locked_is_let_go_and_waited_for():
    world = taken()
    world.settle_restore()
    world.run()
    world.settle_restore()
    assert not vm_of_world(world).status.restore_in_progress
    assert world.reason("restore").startswith("Waiting for target VM to be powered off")
    world.fill(*NEW.values())
    world.vmi = None
    world.settle_restore()
    assert status(world).complete


def test_a_new_vm_does_not_run_and_gets_its_patches():
    world = taken("twin", patches=['{"op": "replace", "path": "/spec/template/spec/hostname", "value": "twin"}'])
    world.vm = None
    world.settle_restore()
    assert [each.metadata.owner_references for name, each in world.volumes.items() if name in NEW.values()] == [[], []]
    world.fill(*NEW.values())
    world.settle_restore()
    twin = vm_of_world(world)
    assert (twin.metadata.name, twin.spec.run_strategy) == ("twin", "Halted")
    assert world.operations[0]["value"] == "twin"
    assert twin.metadata.annotations[LAST_RESTORE] == f"back-{RESTORE_UID}"
    assert status(world).complete
    for name in NEW.values():
        owner = world.volumes[name].metadata.controller_reference()
        assert owner is not None
        assert owner.uid == twin.metadata.uid


@pytest.mark.parametrize("is_deleted", [False, True], ids=["the restore stays", "the restore is deleted"])
def test_a_new_vm_whose_patches_are_refused_goes_with_its_disks(is_deleted: bool):
    world = taken("twin", patches=['{"op": "remove", "path": "/spec/no"}'])
    world.vm = None
    world.settle_restore()
    world.fill(*NEW.values())
    for action in world.look_at_restore().actions:
        world._do(action)
    while world.vm is None:
        for action in world.look_at_restore().actions:
            world._do(action)
    assert world.vm.metadata.annotations[LAST_RESTORE].startswith(UNPATCHED)
    world.refusal = "no such path"
    if is_deleted:
        world.delete("restore")
    plan = world.settle_restore()
    assert vm_of_world(world).metadata.deletion_timestamp is not None
    # Its disks stay while it is there.
    assert plan.again_after == 5.0
    assert world.volumes.keys() >= set(NEW.values())
    world.vm, world.refusal = None, ""
    world.settle_restore()
    assert world.volumes.keys().isdisjoint(NEW.values())
    assert world.restore is None if is_deleted else "no such path" in world.reason("restore", "Failure")


@pytest.mark.parametrize(
    ("webhook", "passes"),
    [("names.example.com", True), ("virtualmachine-validator.kubevirt.io", False)],
    ids=["somebody's webhook", "our own"],
)
def test_patches_that_a_webhook_refuses_are_tried_again_unless_it_judges_what_is_said(webhook: str, passes: bool):
    world = taken("twin", patches=['{"op": "replace", "path": "/spec/template/spec/hostname", "value": "twin"}'])
    world.vm = None
    world.settle_restore()
    world.fill(*NEW.values())
    while world.vm is None:
        for action in world.look_at_restore().actions:
            world._do(action)
    world.refusal = f'admission webhook "{webhook}" denied the request: not this name'
    plan = world.look_at_restore()
    assert any(isinstance(action, PatchByOperations) for action in plan.actions) is passes
    for action in plan.actions:
        if not isinstance(action, PatchByOperations):
            world._do(action)
    assert world.restore is not None
    assert world.restore.is_final is not passes
    assert "not this name" in world.reason("restore", "Progressing" if passes else "Failure")
    assert plan.again_after == (LOOK_SECONDS if passes else None)
    if passes:
        world.refusal = ""
        world.settle_restore()
        assert status(world).complete


def test_a_restore_of_a_clone_has_one_controller_and_goes_with_the_last_of_both():
    world = taken("twin")
    world.vm = None
    assert world.restore is not None
    clone = OwnerReference(api_version="v1", kind="VirtualMachineClone", name="c", uid="u", controller=True)
    world.restore.metadata.owner_references = [clone]
    world.settle_restore()
    world.fill(*NEW.values())
    world.settle_restore()
    assert status(world).complete
    owners = world.restore.metadata.owner_references
    assert [(each.kind, each.controller) for each in owners] == [
        ("VirtualMachineClone", True),
        ("VirtualMachine", None),
    ]


def test_names_labels_and_owners_of_new_disks_are_those_that_were_asked_for():
    override = {"volumeName": "data", "restoreName": "kept", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    world = taken(
        volumeRestorePolicy="PrefixTargetName", volumeOwnershipPolicy="None", volumeRestoreOverrides=[override]
    )
    # `web-root` is the name of the disk of before.
    del world.volumes["web-root"]
    world.settle_restore()
    assert [each.persistent_volume_claim for each in status(world).restores] == ["web-root", "kept"]
    kept = world.volumes["kept"].metadata
    assert (kept.labels["a"], kept.annotations["c"], kept.owner_references) == ("b", "d", [])


def _break(world: World, what: str) -> None:
    assert world.snapshot is not None
    match what:
        case "snapshot failed":
            world.snapshot.status.phase = "Failed"
        case "copy lost":
            world.snapshot.status.ready_to_use = False
            world.snapshot.status.error = SnapshotError(message="VolumeSnapshots (x) missing")
        case "another vm":
            vm_of_world(world).metadata.uid = "another"
        case "name taken":
            world.volumes[NEW["data"]] = World.make_volume(NEW["data"])


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("snapshot failed", "VMSnapshot default/before failed and is invalid to use"),
        ("copy lost", "VMSnapshot default/before is not usable any more: VolumeSnapshots (x) missing"),
        ("another vm", "restore source and restore target are different but restore target already exists"),
        ("name taken", f"DataVolume {NEW['data']} of volume data exists already: name another one in "
         "spec.volumeRestoreOverrides"),
    ],
)  # fmt: skip
def test_a_restore_that_can_never_be_done_ends(what: str, words: str):
    world = taken()
    _break(world, what)
    world.settle_restore()
    assert world.restore is not None
    assert world.restore.has_failed
    assert {world.reason("restore", kind) for kind in ("Failure", "Progressing", "Ready")} == {words}
    told = world.told[-1]
    assert (told.type, told.reason) == ("Warning", "VirtualMachineRestoreError")
    assert told.message == f"VirtualMachineRestore encountered error {words}"
    assert not vm_of_world(world).status.restore_in_progress
    assert disks(world) == OLD


def test_a_vm_that_is_deleted_while_it_is_restored_is_not_made_anew():
    world = taken()
    world.settle_restore()
    world.vm = None
    world.fill(*NEW.values())
    world.settle_restore()
    assert world.vm is None
    assert world.reason("restore", "Failure") == "the target VM is gone"
    assert not set(NEW.values()) & set(world.volumes)


@pytest.mark.parametrize("target", ["web", "twin"])
def test_a_vm_that_the_server_refuses_is_told_and_tried_again(target: str):
    world = taken(target)
    if target == "twin":
        world.vm = None
    world.settle_restore()
    world.fill(*NEW.values())
    world.refusal = "admission webhook denied the request"
    writes = 0
    for _ in range(4):
        plan = world.look_at_restore()
        for action in plan.actions:
            # Refused by the server: nothing of the VM is written but its status.
            if not isinstance(getattr(action, "item", None), VirtualMachine) or getattr(action, "subresource", ""):
                world._do(action)
            else:
                writes += 1
        assert plan.again_after == 5.0 or not writes
    assert writes >= 2
    assert world.restore is not None
    assert not world.restore.is_final
    told = [(each.type, each.status, each.reason) for each in world.restore.status.conditions]
    why = "the VM was refused: admission webhook denied the request"
    assert sorted(told) == [("Progressing", "False", why), ("Ready", "False", why)]
    assert set(NEW.values()) <= set(world.volumes)
    world.refusal = ""
    world.settle_restore()
    assert status(world).complete
    assert disks(world) == NEW


@pytest.mark.parametrize("what", ["failed", "snapshot gone", "deleted although refused", "deleted"])
def test_a_restore_that_breaks_off_takes_its_new_disks_along(what: str):
    world = taken()
    world.settle_restore()
    world.fill(NEW["root"])
    match what:
        case "failed":
            world.fill(NEW["data"], phase="Failed", message="too small")
        case "snapshot gone":
            world.snapshot = None
        case "deleted although refused":
            world.fill(NEW["data"])
            world.refusal = "admission webhook denied the request"
            world.delete("restore")
        case "deleted":
            world.delete("restore")
    world.settle_restore()
    assert not set(NEW.values()) & set(world.volumes)
    assert disks(world) == OLD
    assert not vm_of_world(world).status.restore_in_progress
    assert (world.restore is None) is what.startswith("deleted")
    if world.restore is not None:
        assert world.restore.has_failed


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("snapshot", "VMSnapshot default/before does not exist"),
        ("not ready", "VMSnapshot default/before not ready"),
        ("snapshot of the vm", 'snapshot "next" in progress'),
        ("restore of the vm", "vm restore next in progress"),
        ("vm goes", "VM web is being deleted"),
    ],
)
def test_a_restore_waits_for_its_turn_and_says_for_what(what: str, words: str):
    world = taken()
    assert world.snapshot is not None
    match what:
        case "snapshot":
            world.snapshot = None
        case "not ready":
            world.snapshot.status.phase, world.snapshot.status.ready_to_use = "InProgress", False
        case "snapshot of the vm":
            vm_of_world(world).status.snapshot_in_progress = "next"
        case "restore of the vm":
            vm_of_world(world).status.restore_in_progress = "next"
        case "vm goes":
            world.delete("vm")
    plan = world.settle_restore()
    assert world.reason("restore") == words
    assert plan.again_after == 5
    # Once, however often it looks.
    assert [each.message for each in world.told].count(f"VirtualMachineRestore encountered error {words}") == 1
    world.settle_restore()
    assert [each.reason for each in world.told].count("VirtualMachineRestoreError") == 1
    assert not set(NEW.values()) & set(world.volumes)


def test_a_restore_that_is_complete_goes_without_a_trace():
    world = taken()
    world.settle_restore()
    world.fill(*NEW.values())
    world.settle_restore()
    world.delete("restore")
    world.settle_restore()
    assert world.restore is None
    assert set(NEW.values()) <= set(world.volumes)
    assert disks(world) == NEW


def test_a_restore_that_is_deleted_at_any_step_leaves_the_old_disks_or_the_new_ones():
    outcomes = set()
    for step in range(1, 24):
        world = taken()
        for _ in range(step):
            plan = world.look_at_restore()
            if plan.actions:
                world._do(plan.actions[0])
            elif set(NEW.values()) <= set(world.volumes):
                world.fill(*NEW.values())
        world.delete("restore")
        world.settle_restore()
        assert world.restore is None, step
        assert not vm_of_world(world).status.restore_in_progress, step
        has_new = set(NEW.values()) & set(world.volumes)
        assert disks(world) == (NEW if has_new else OLD), step
        assert not has_new or has_new == set(NEW.values()), step
        outcomes.add(bool(has_new))
    assert outcomes == {False, True}


def test_a_controller_that_died_after_the_exchange_goes_on_from_there():
    world = taken()
    world.settle_restore()
    world.fill(*NEW.values())
    # Each step alone, by a controller that knows nothing of the one before.
    for _ in range(20):
        plan = world.look_at_restore()
        if not plan.actions:
            break
        world._do(plan.actions[0])
    assert status(world).complete
    assert "web-root" not in world.volumes
    assert not vm_of_world(world).status.restore_in_progress
    assert the_vm().spec.data_volume_templates[0].metadata.name == "web-root"


def test_an_old_disk_stays_that_the_restored_vm_still_names():
    world = World()
    vm = vm_of_world(world)
    vm.spec.data_volume_templates += [
        decode(DataVolumeTemplate, {"metadata": {"name": name}, "spec": {"source": {"blank": {}}}})
        for name in ("web-base", "web-spare")
    ]
    assert vm.spec.template is not None
    layer = {"name": "base", "ephemeral": {"persistentVolumeClaim": {"claimName": "web-base"}}}
    vm.spec.template.spec.volumes.append(decode(Volume, layer))
    world.volumes |= {name: world.make_volume(name, owner=VM_UID) for name in ("web-base", "web-spare")}
    world.take()
    world.ask_restore()
    world.settle_restore()
    world.fill(*NEW.values())
    world.settle_restore()
    assert status(world).deleted_data_volumes == ["web-root"]
    assert {"web-base", "web-spare"} <= set(world.volumes)


@pytest.mark.parametrize("owner", ["", VM_UID])
def test_what_is_no_disk_of_the_vm_is_not_deleted_whatever_the_status_says(owner: str):
    world = taken()
    world.settle_restore()
    world.volumes["other"] = world.make_volume("other", owner=owner)
    world.fill(*NEW.values())
    while not vm_of_world(world).metadata.annotations.get(LAST_RESTORE):
        world._do(world.look_at_restore().actions[0])
    status(world).deleted_data_volumes.append("other")
    world.settle_restore()
    assert status(world).complete
    assert ("other" in world.volumes) is not bool(owner)


def test_a_restore_that_breaks_off_leaves_a_disk_that_its_user_has_given_the_vm():
    world = taken()
    world.settle_restore()
    volume = vm_of_world(world).spec.template.spec.volumes[1]  # type: ignore[union-attr]
    volume.persistent_volume_claim = PersistentVolumeClaimSource(claim_name=NEW["data"])
    world.delete("restore")
    world.settle_restore()
    assert world.restore is None
    assert set(NEW.values()) & set(world.volumes) == {NEW["data"]}


def test_a_vm_that_is_restored_needs_no_recovery_of_the_claims_that_it_had():
    world = taken()
    move = MigratedVolume(
        volume_name="data",
        source_pvc_info=ClaimInfo(claim_name="web-data"),
        destination_pvc_info=ClaimInfo(claim_name="other"),
    )
    state = VolumeUpdateState(volume_migration_state=VolumeMigrationState(migrated_volumes=[move]))
    vm_of_world(world).status.volume_update_state = state
    world.settle_restore()
    assert vm_of_world(world).status.volume_update_state == state
    world.fill(*NEW.values())
    world.settle_restore()
    assert status(world).complete
    assert vm_of_world(world).status.volume_update_state is None


def test_no_claim_is_restored_that_came_in_place_of_the_one_with_the_copy():
    world = taken()
    world.claims[COPIES["data"]].metadata.uid = "another"
    world.settle_restore()
    assert "is not the one that the snapshot's copy was put into" in world.reason("restore", "Failure")
    assert not set(NEW.values()) & set(world.volumes)
    assert disks(world) == OLD
