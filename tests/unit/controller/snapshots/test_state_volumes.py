# Tests: kvedge/controller/snapshots/volume_copies.py, kvedge/controller/snapshots/restored_vm.py
"""The state of a VM's TPM and UEFI firmware is in its snapshots, and comes back into that VM alone."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.snapshots.live_copies import copy_request
from kvedge.resources.codec import encode
from kvedge.resources.disks.state_claims import STATE_CLAIM, STATE_LABEL
from kvedge.resources.meta import owner_reference
from kvedge.resources.types.devices import TpmDevice
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.support.builders import a_claim
from tests.unit.controller.snapshots.snapshot_world import COPIES, NEW, RESTORE_UID, UID, World

STATE = "persistent-state-for-this-vm"
CLAIM = "persistent-state-for-web"
COPY = f"vmsnapshot-{UID}-volume-{STATE}"
RESTORED = f"restore-{RESTORE_UID}-{STATE}"


@pytest.fixture
def world() -> World:
    """A VM that keeps its TPM, and does not run."""
    made = World()
    vm = vm_of(made)
    assert vm.spec.template is not None
    vm.spec.template.spec.domain.devices.tpm = TpmDevice(persistent=True)
    made.claims[CLAIM] = state_claim(made)
    return made


def vm_of(world: World) -> Any:
    assert world.vm is not None
    return world.vm


def state_claim(world: World, phase: str = "Bound", name: str = CLAIM) -> PersistentVolumeClaim:
    claim = a_claim(name, storage_class_name="disks")
    claim.metadata.labels = {STATE_LABEL: "web"}
    claim.metadata.owner_references = [owner_reference(vm_of(world))]
    claim.status.phase = phase
    return claim


def run(world: World, *, keeps: bool = True) -> None:
    world.run()
    assert world.vmi is not None
    world.vmi.spec.domain.devices.tpm = TpmDevice(persistent=keeps)


def take(world: World) -> None:
    world.settle()
    world.fill(*COPIES.values(), COPY)
    world.settle()


def status(world: World) -> Any:
    assert world.snapshot is not None
    return world.snapshot.status


def restore(world: World, target: str = "web") -> None:
    world.ask_restore(target)
    world.settle_restore()
    world.fill(*NEW.values(), *([RESTORED] if RESTORED in world.volumes else []))
    world.settle_restore()
    assert world.restore is not None
    assert world.restore.status.complete


def test_a_stopped_vm_s_state_is_copied_as_its_disks_are(world: World) -> None:
    take(world)
    assert (status(world).phase, status(world).indications) == ("Succeeded", [])
    assert status(world).snapshot_volumes.included_volumes == ["root", "data", STATE]
    assert status(world).snapshot_volumes.excluded_volumes == ["tools"]
    source = encode(world.volumes[COPY])["spec"]["source"]
    assert source == {"pvc": {"name": CLAIM, "namespace": "default"}}


def test_the_launcher_of_a_running_vm_is_asked_for_it_with_the_disks(world: World) -> None:
    run(world)
    world.settle()
    assert world.content is not None
    assert [each.volume_name for each in copy_request(world.content).volumes] == ["root", "data", STATE]
    assert COPY in world.claims


@pytest.mark.parametrize("why", ["never bound", "not there", "not of this run"])
def test_state_that_there_is_not_is_in_no_snapshot(world: World, why: str) -> None:
    match why:
        case "never bound":
            world.claims[CLAIM] = state_claim(world, "Pending")
        case "not there":
            del world.claims[CLAIM]
        case "not of this run":
            run(world, keeps=False)
    world.settle()
    assert world.content is not None
    assert [each.volume_name for each in world.content.spec.volume_backups] == ["root", "data"]
    left = [] if why == "not there" else [STATE]
    assert status(world).snapshot_volumes.excluded_volumes == ["tools", *left]


def test_the_vm_points_at_no_claim_before_that_is_complete(world: World) -> None:
    take(world)
    world.ask_restore(volumeRestorePolicy="PrefixTargetName")
    world.settle_restore()
    assert STATE_CLAIM not in vm_of(world).metadata.annotations
    assert CLAIM in world.claims
    assert world.restore is not None
    # No policy gives it another name.
    names = [each.persistent_volume_claim for each in world.restore.status.restores]
    assert names == ["web-root", "web-data", RESTORED]


def test_the_old_claim_goes_once_the_vm_has_the_new_one(world: World) -> None:
    take(world)
    restore(world)
    assert vm_of(world).metadata.annotations[STATE_CLAIM] == RESTORED
    assert CLAIM not in world.claims
    assert vm_of(world).metadata.uid in {each.uid for each in world.volumes[RESTORED].metadata.owner_references}


def test_the_claim_of_an_earlier_restore_goes_likewise(world: World) -> None:
    older = "restore-older"
    world.volumes[older] = world.make_volume(older, owner=vm_of(world).metadata.uid)
    del world.claims[CLAIM]
    world.claims[older] = a_claim(older, storage_class_name="disks")
    vm_of(world).metadata.annotations[STATE_CLAIM] = older
    take(world)
    restore(world)
    assert vm_of(world).metadata.annotations[STATE_CLAIM] == RESTORED
    assert older not in world.volumes


@pytest.mark.parametrize("is_own", [True, False], ids=["of a migration or a backup", "of somebody else"])
def test_a_claim_that_no_data_volume_has_filled_goes_likewise_if_it_is_the_vm_s(world: World, is_own: bool) -> None:
    older = "persistent-state-for-web-1234567890"
    world.claims[older] = state_claim(world, name=older)
    if not is_own:
        world.claims[older].metadata.owner_references = []
    del world.claims[CLAIM]
    vm_of(world).metadata.annotations[STATE_CLAIM] = older
    take(world)
    restore(world)
    assert vm_of(world).metadata.annotations[STATE_CLAIM] == RESTORED
    assert (older in world.claims) is not is_own


def test_a_restore_that_breaks_off_leaves_the_state_as_it_was(world: World) -> None:
    take(world)
    world.ask_restore()
    world.settle_restore()
    assert world.volumes[RESTORED].metadata.labels["persistent-state-for"] == "web"
    world.delete("restore")
    world.settle_restore()
    assert RESTORED not in world.volumes
    assert CLAIM in world.claims
    assert STATE_CLAIM not in vm_of(world).metadata.annotations


def test_another_vm_gets_none_of_it_and_is_told(world: World) -> None:
    take(world)
    restore(world, "other")
    assert vm_of(world).metadata.name == "other"
    assert STATE_CLAIM not in vm_of(world).metadata.annotations
    assert RESTORED not in world.volumes
    assert [each.reason for each in world.told if each.reason == "StateLeftOut"] == ["StateLeftOut"]
    assert CLAIM in world.claims


def test_a_vm_of_that_name_that_is_gone_gets_it_back(world: World) -> None:
    take(world)
    world.vm = None
    restore(world)
    assert vm_of(world).metadata.annotations[STATE_CLAIM] == RESTORED


def test_somebody_s_claim_of_the_old_name_stays(world: World) -> None:
    take(world)
    world.claims[CLAIM].metadata.owner_references = []
    restore(world)
    assert CLAIM in world.claims


def test_drivers_take_it_too_or_nothing(world: World) -> None:
    world.use_driver()
    world.settle()
    assert world.driver_snapshots == {}
    again = World()
    again.vm, again.claims = world.vm, {**again.claims, CLAIM: state_claim(world)}
    vm_of(again).status.snapshot_in_progress = ""
    again.use_driver()
    again.classes.by_claim[CLAIM] = "fast"  # type: ignore[index]
    again.settle()
    assert again.driver_snapshots is not None
    assert len(again.driver_snapshots) == 3
