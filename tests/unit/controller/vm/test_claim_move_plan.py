"""How a running VM's volumes get other claims, and when the VM may start afterwards."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from kvedge.controller.vm.claim_changes import NOT_FOUND, ClaimSights
from kvedge.controller.vm.claim_move_plan import CANCELLATION, ClaimMove, plan_claim_move
from kvedge.controller.vm.vm_actions import CreateVmi, Hotplug, PatchVmi, PatchVmStatus, PutBack, VmPlan
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.controller.vm.vmi_template import needs_restart, template_hash
from kvedge.resources.codec import decode, encode, encode_json
from kvedge.resources.disks.moved_places import DISK_MOVED, moved_place
from kvedge.resources.disks.moved_volumes import (
    IN_PLACE,
    MANUAL_RECOVERY_REQUIRED,
    REPLACEMENT,
    VOLUMES_CHANGE,
    as_moved,
    attached_volumes,
)
from kvedge.resources.evacuation import STORAGE_LIVE_MIGRATABLE
from kvedge.resources.meta import Condition, condition
from kvedge.resources.moves.disk_moves import MOVED_FROM
from kvedge.resources.moves.workload_updates import changes_volumes
from kvedge.resources.names import TEMPLATE_HASH, VM_GENERATION
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine, VolumeMigrationState, VolumeUpdateState
from kvedge.resources.types.vmi import MigratedVolume, VirtualMachineInstance, VolumeStatus
from kvedge.resources.types.volumes import Volume
from tests.support.builders import NOW, a_claim, patched
from tests.support.values import replace
from tests.unit.controller.vm.claim_pairs import OPEN, a_pair, info_of, on_claim, sights

SEEN = sights(a_claim("new"), a_claim("root-old"))
FAILED = MigrationState(migration_uid="m1", completed=True, failed=True)
REVERT_ALONE = "The volume can only be reverted to the previous version during the update"


def exchange(volume: str, old: str, new: str) -> MigratedVolume:
    return MigratedVolume(
        volume_name=volume, source_pvc_info=info_of(a_claim(old)), destination_pvc_info=info_of(a_claim(new))
    )


MOVE = exchange("root", "root-old", "new")


def planned(vm: VirtualMachine, vmi: VirtualMachineInstance | None, seen: ClaimSights = SEEN) -> ClaimMove:
    return plan_claim_move(vm, vmi, seen, NOW)


def after(vmi: VirtualMachineInstance, move: ClaimMove) -> VirtualMachineInstance:
    return decode(VirtualMachineInstance, patched(encode(vmi), move.body))


def change_of(vmi: VirtualMachineInstance) -> Condition | None:
    return condition(vmi.status.conditions, VOLUMES_CHANGE)


def accepted(
    wanted: dict[str, str] | None = None, state: MigrationState | None = None
) -> tuple[VirtualMachine, VirtualMachineInstance]:
    """A change of root from root-old to new that is under way."""
    vm, vmi = a_pair({"root": "new"})
    vmi = after(vmi, planned(vm, vmi))
    vmi.status.migration_state = state
    record(vm, MOVE)
    if wanted is not None:
        name(vm, wanted)
    return vm, vmi


def record(vm: VirtualMachine, *moved: MigratedVolume) -> None:
    state = VolumeMigrationState(migrated_volumes=list(moved))
    vm.status.volume_update_state = VolumeUpdateState(volume_migration_state=state)


def name(vm: VirtualMachine, wanted: dict[str, str]) -> None:
    assert vm.spec.template is not None
    vm.spec.template.spec.volumes = [decode(Volume, on_claim(*each)) for each in wanted.items()]


def test_a_change_is_recorded_and_then_the_run_is_told() -> None:
    vm, vmi = a_pair({"root": "new"})
    move = planned(vm, vmi)
    assert list(move.recorded) == [MOVE]
    told = after(vmi, move)
    assert told.status.migrated_volumes == [MOVE]
    found = change_of(told)
    assert found is not None
    assert (found.status, found.message) == ("True", "migrate volumes")
    # The guest uses what it used before.
    assert told.spec == vmi.spec
    again = planned(vm, told)
    assert (list(again.recorded), again.body) == ([MOVE], {})


def test_a_replacement_waits_for_a_restart() -> None:
    vm, vmi = a_pair({"root": "new"}, strategy=REPLACEMENT)
    assert planned(vm, vmi) == ClaimMove()


def test_a_refused_change_says_so_and_waits_for_a_restart() -> None:
    vm, vmi = a_pair({"root": "new", "data": "data"}, {"root": "root-old", "data": "data"})
    move = planned(vm, vmi)
    assert move.restart.startswith("cannot migrate the VM. The volume data is RWO")
    assert (list(move.recorded), move.body, move.is_carried) == ([], {}, False)


def test_a_destination_that_is_not_there_is_told_and_forgotten_with_the_change() -> None:
    vm, vmi = a_pair({"root": "new"})
    move = planned(vm, vmi, sights())
    told = after(vmi, move)
    found = change_of(told)
    assert found is not None
    assert (found.status, found.reason) == ("False", NOT_FOUND)
    assert (list(move.recorded), move.is_carried, told.status.migrated_volumes) == ([], True, [])
    accepted_later = change_of(after(told, planned(vm, told)))
    assert accepted_later is not None
    assert accepted_later.status == "True"
    name(vm, {"root": "root-old"})
    assert change_of(after(told, planned(vm, told))) is None


@pytest.mark.parametrize("state", [OPEN, None])
def test_nothing_is_begun_while_the_guest_moves_or_does_not_run(state: MigrationState | None) -> None:
    vm, vmi = a_pair({"root": "new"})
    vmi.status.migration_state = state
    vmi.status.phase = "Running" if state is not None else "Scheduled"
    assert planned(vm, vmi) == ClaimMove(is_carried=True)


def test_a_change_that_is_taken_back_before_the_guest_moves_leaves_nothing() -> None:
    vm, vmi = accepted({"root": "root-old"})
    move = planned(vm, vmi)
    # The VM's word goes after the run's: until then the guest may still move.
    assert list(move.recorded) == [MOVE]
    told = after(vmi, move)
    found = change_of(told)
    assert found is not None
    assert (found.status, found.reason, told.status.migrated_volumes) == ("False", CANCELLATION, [])
    assert planned(vm, told) == ClaimMove()


def test_a_change_that_is_taken_back_on_the_way_stays_named_until_the_guest_stays() -> None:
    vm, vmi = accepted({"root": "root-old"}, OPEN)
    told = after(vmi, planned(vm, vmi))
    found = change_of(told)
    assert found is not None
    assert (found.status, found.reason, told.status.migrated_volumes) == ("False", CANCELLATION, [MOVE])
    assert list(planned(vm, told).recorded) == [MOVE]
    told.status.migration_state = FAILED
    assert after(told, planned(vm, told)).status.migrated_volumes == []


def test_a_guest_that_has_moved_all_the_same_goes_back() -> None:
    vm, vmi = accepted({"root": "root-old"}, OPEN)
    moved = as_moved(after(vmi, planned(vm, vmi)))
    moved.status.migration_state = MigrationState(migration_uid="m1", completed=True)
    move = planned(vm, moved, sights(a_claim("new"), a_claim("root-old")))
    assert list(move.recorded) == [exchange("root", "new", "root-old")]
    # Until it is back, the old claim is the stale one.
    moved.status.phase = "Failed"
    assert planned(vm, moved).is_blocked


def test_a_change_that_is_wanted_again_goes_on() -> None:
    vm, vmi = accepted({"root": "root-old"}, OPEN)
    told = after(vmi, planned(vm, vmi))
    name(vm, {"root": "new"})
    found = change_of(after(told, planned(vm, told)))
    assert found is not None
    assert found.status == "True"


@pytest.mark.parametrize(
    "wanted",
    [{"root": "third"}, {"root": "new", "data": "data-new"}, {"root": "root-old", "data": "data-new"}, {}],
    ids=["another", "one more", "another instead", "none"],
)
def test_what_is_under_way_can_only_be_taken_back(wanted: dict[str, str]) -> None:
    vm, vmi = accepted(wanted)
    vmi.spec.volumes = [*vmi.spec.volumes, decode(Volume, on_claim("data", "data-old"))]
    move = planned(vm, vmi)
    assert move.failure is not None
    assert (move.failure.reason, REVERT_ALONE in move.failure.message) == ("VolumesUpdateError", True)
    assert (move.body, list(move.recorded)) == ({}, [MOVE])


def test_a_guest_that_has_moved_leaves_nothing_to_do() -> None:
    vm, vmi = accepted()
    moved = as_moved(vmi)
    moved.status.conditions = []
    assert planned(vm, moved) == ClaimMove()


def test_on_the_only_node_the_disks_move_in_place() -> None:
    vm, vmi = a_pair({"root": "new"}, {"root": "old"})
    move = planned(vm, vmi, replace(SEEN, is_alone=True))
    vmi = after(vmi, move)
    found = change_of(vmi)
    assert found is not None
    assert (found.status, found.reason, changes_volumes(vmi)) == ("True", IN_PLACE, False)
    place = moved_place("root", "new")
    assert [volume.name for volume in attached_volumes(vmi)] == [place]
    # It stays so, whatever nodes come meanwhile.
    assert planned(vm, vmi).body == {}
    # The handler has exchanged the claims, and QEMU the disks.
    vmi = as_moved(vmi)
    vmi.status.migrated_volumes = list(move.recorded)
    vmi.status.volume_status.append(VolumeStatus(name=place, target=""))
    assert planned(vm, vmi).body == {}
    vmi.status.volume_status[-1].reason = DISK_MOVED
    vmi = after(vmi, planned(vm, vmi))
    assert (vmi.status.migrated_volumes, change_of(vmi)) == ([], None)
    # The launcher keeps the claim.
    assert [volume.name for volume in attached_volumes(vmi)] == [place]


def test_a_run_that_ended_before_its_disk_had_moved_in_place_is_started_again_on_the_old_one() -> None:
    vm, vmi = a_pair({"root": "new"}, {"root": "old"})
    move = planned(vm, vmi, replace(SEEN, is_alone=True))
    vmi = after(vmi, move)
    record(vm, *move.recorded)
    vmi.status.phase = "Failed"
    found = planned(vm, vmi, ClaimSights())
    assert found.is_blocked
    (volume,) = found.put_back["spec"]["template"]["spec"]["volumes"]
    assert volume == {"name": "root", "persistentVolumeClaim": {"claimName": "old"}}
    # One that had moved starts where it was.
    assert not planned(vm, as_moved(vmi), ClaimSights()).is_blocked


def test_what_a_take_over_has_left_is_cleared() -> None:
    vm, vmi = accepted()
    vmi.spec = as_moved(vmi).spec
    told = after(vmi, planned(vm, vmi))
    assert (told.status.migrated_volumes, change_of(told)) == ([], None)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_vm_does_not_start_on_a_disk_that_is_incomplete(is_there: bool) -> None:
    vm, vmi = accepted()
    vmi.status.phase = "Failed"
    move = planned(vm, vmi if is_there else None)
    assert (list(move.recorded), move.is_blocked) == ([MOVE], True)


def test_a_change_that_nobody_has_seen_before_the_end_of_the_run_counts_as_begun() -> None:
    vm, vmi = a_pair({"root": "new"})
    vmi.status.phase = "Succeeded"
    move = planned(vm, vmi)
    assert (list(move.recorded), move.is_blocked) == ([MOVE], True)
    # What could not have begun is taken as it is by the next start,
    assert planned(vm, vmi, sights()) == ClaimMove()
    # and so is a change that was made after the VM had noticed the end.
    vmi.metadata.finalizers = []
    assert planned(vm, vmi) == ClaimMove()


def test_a_run_that_had_moved_hinders_no_start() -> None:
    vm, vmi = accepted()
    moved = as_moved(vmi)
    moved.status.phase = "Succeeded"
    assert planned(vm, moved) == ClaimMove()


def test_a_claim_that_was_not_part_of_the_change_is_no_recovery() -> None:
    # It may be what the guest has left earlier.
    vm, vmi = accepted({"root": "third"})
    assert planned(vm, None).is_blocked
    vmi.status.phase = "Failed"
    assert planned(vm, vmi).is_blocked


@pytest.mark.parametrize("wanted", [{"root": "root-old"}, {}], ids=["old", "none"])
def test_a_vm_starts_again_on_claims_that_are_complete(wanted: dict[str, str]) -> None:
    vm, vmi = accepted(wanted)
    assert planned(vm, None) == ClaimMove()
    vmi.status.phase = "Failed"
    assert planned(vm, vmi) == ClaimMove()


def test_a_volume_of_another_name_does_not_get_the_incomplete_claim_either() -> None:
    vm, _ = accepted({"other": "new"})
    assert planned(vm, None).is_blocked


def test_some_of_the_old_claims_are_not_enough() -> None:
    vm, _ = accepted({"root": "root-old", "data": "data-new"})
    record(vm, MOVE, exchange("data", "data-old", "data-new"))
    assert planned(vm, None).is_blocked


def made_for_a_move(name_: str, source: str) -> PersistentVolumeClaim:
    claim = a_claim(name_)
    claim.metadata.annotations[MOVED_FROM] = source
    return claim


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("source", [{"persistentVolumeClaim": {"claimName": "new"}}, {"dataVolume": {"name": "new"}}])
def test_claims_that_nobody_chose_are_put_back(is_there: bool, source: dict[str, Any]) -> None:
    vm, vmi = accepted()
    vmi.status.phase = "Failed"
    other = {"name": "scratch", "emptyDisk": {"capacity": "1Gi"}}
    assert vm.spec.template is not None
    vm.spec.template.spec.volumes = [decode(Volume, other), decode(Volume, {"name": "root", **source})]
    run, seen = vmi if is_there else None, sights(made_for_a_move("new", "root-old"))
    assert whole(vm, run, seen).actions == (PutBack(planned(vm, run, seen).put_back),)
    vm = decode(VirtualMachine, patched(encode(vm), planned(vm, run, seen).put_back))
    assert vm.spec.template is not None
    assert [encode(each) for each in vm.spec.template.spec.volumes] == [other, on_claim("root", "root-old")]
    assert planned(vm, run, seen) == ClaimMove()
    assert run is not None or any(isinstance(action, CreateVmi) for action in whole(vm, run, seen).actions)


@pytest.mark.parametrize("why", ["the only node", "refused"])
def test_a_run_that_ends_before_its_disks_could_move_leaves_its_vm_the_claims_with_the_data(why: str) -> None:
    vm, vmi = a_pair({"root": "new"})
    vmi.status.phase = "Succeeded"
    seen = replace(sights(made_for_a_move("new", "root-old"), a_claim("root-old")), is_alone=why == "the only node")
    if why == "refused":
        vmi.status.conditions = [Condition(type=STORAGE_LIVE_MIGRATABLE, status="False")]
    assert whole(vm, vmi, seen).actions == (PutBack(planned(vm, vmi, seen).put_back),)
    vm = decode(VirtualMachine, patched(encode(vm), planned(vm, vmi, seen).put_back))
    assert vm.spec.template is not None
    assert [encode(each) for each in vm.spec.template.spec.volumes] == [on_claim("root", "root-old")]


@pytest.mark.parametrize(
    "claims",
    [[], [a_claim("new")], [made_for_a_move("new", "another")]],
    ids=["gone", "chosen by a user", "made for another disk"],
)
def test_claims_that_somebody_chose_are_not_put_back(claims: list[PersistentVolumeClaim]) -> None:
    vm, _ = accepted()
    move = planned(vm, None, sights(*claims))
    assert (move.is_blocked, move.put_back) == (True, {})


def test_a_vm_that_is_restored_is_left_alone() -> None:
    vm, _ = accepted()
    vm.status.restore_in_progress = "r1"
    plan = whole(vm, None, sights(made_for_a_move("new", "root-old")))
    assert {type(action) for action in plan.actions} <= {PatchVmStatus}


def test_who_takes_the_strategy_away_wants_the_claims_as_they_are() -> None:
    vm, _ = accepted()
    vm.spec.update_volumes_strategy = None
    assert planned(vm, None) == ClaimMove()


# The whole VM.


def whole(vm: VirtualMachine, vmi: VirtualMachineInstance | None, seen: ClaimSights = SEEN) -> VmPlan:
    return plan_vm(vm, vmi, NOW, 0.0, Hotplug(claims=seen))


def with_status(vm: VirtualMachine, plan: VmPlan) -> VirtualMachine:
    document = encode(vm)
    for action in plan.actions:
        if isinstance(action, PatchVmStatus):
            document = patched(document, action.body)
    return decode(VirtualMachine, document)


def test_the_vm_says_what_is_incomplete_before_anybody_copies() -> None:
    vm, vmi = a_pair({"root": "new"})
    kinds: list[Any] = [type(action) for action in whole(vm, vmi).actions]
    assert kinds[-2:] == [PatchVmStatus, PatchVmi]
    state = with_status(vm, whole(vm, vmi)).status.volume_update_state
    assert state is not None
    assert state.volume_migration_state is not None
    assert state.volume_migration_state.migrated_volumes == [MOVE]


def test_a_vm_whose_run_ended_midway_says_how_to_recover_and_starts_when_it_is_done() -> None:
    vm, vmi = accepted()
    vmi.status.phase = "Failed"
    vm = with_status(vm, whole(vm, vmi))
    for _ in range(2):
        plan = whole(vm, None)
        assert not any(isinstance(action, CreateVmi) for action in plan.actions)
        vm = with_status(vm, plan)
    found = condition(vm.status.conditions, MANUAL_RECOVERY_REQUIRED)
    assert found is not None
    assert (found.status, found.reason) == ("True", "VMI was removed or was final during the volume migration")
    assert found.message.endswith("to their original volumes. Volume root: root-old.")
    assert vm.status.printable_status == "Stopped"
    name(vm, {"root": "root-old"})
    plan = whole(vm, None)
    assert any(isinstance(action, CreateVmi) for action in plan.actions)
    vm = with_status(vm, plan)
    assert condition(vm.status.conditions, MANUAL_RECOVERY_REQUIRED) is None
    assert vm.status.volume_update_state is None


@pytest.mark.parametrize(
    ("strategy", "seen", "text"),
    [
        ("Migration", SEEN, ""),
        ("Migration", sights(), ""),
        ("Replacement", SEEN, "a non-live-updatable field was changed in the template spec"),
    ],
    ids=["carried", "waits", "replaced"],
)
def test_only_a_replacement_needs_a_restart(strategy: str, seen: ClaimSights, text: str) -> None:
    vm, vmi = a_pair({"root": "new"}, strategy=strategy)
    vmi.metadata.annotations = {TEMPLATE_HASH: template_hash(vm), VM_GENERATION: "0"}
    found = condition(with_status(vm, whole(vm, vmi, seen)).status.conditions, "RestartRequired")
    assert (found.message if found is not None else "") == text


def test_a_refusal_is_the_reason_for_the_restart() -> None:
    vm, vmi = a_pair({"root": "new"})
    vmi.spec.domain.devices.disks[0].shareable = True
    found = condition(with_status(vm, whole(vm, vmi)).status.conditions, "RestartRequired")
    assert found is not None
    assert found.message == "invalid volumes to update with migration: shareable: [root]"


def test_a_guest_that_has_moved_needs_no_restart() -> None:
    vm, vmi = accepted()
    name(vm, {"root": "root-old"})
    vmi.metadata.annotations = {TEMPLATE_HASH: template_hash(vm), VM_GENERATION: "0"}
    name(vm, {"root": "new"})
    vm = with_status(vm, whole(vm, as_moved(vmi)))
    assert condition(vm.status.conditions, "RestartRequired") is None
    assert vm.status.volume_update_state is None


def test_a_partly_reverted_change_is_the_vms_failure() -> None:
    vm, vmi = accepted({"root": "third"})
    found = condition(with_status(vm, whole(vm, vmi)).status.conditions, "Failure")
    assert found is not None
    assert found.reason == "VolumesUpdateError"


@pytest.mark.parametrize(("wanted", "needed"), [("root-old", False), ("new", True)])
@pytest.mark.parametrize("is_carried", [False, True])
def test_a_run_of_a_version_that_counted_claims_needs_a_restart_for_what_has_changed_alone(
    wanted: str, needed: bool, is_carried: bool
) -> None:
    vm, vmi = a_pair({"root": "root-old"})
    assert vm.spec.template is not None
    counted = hashlib.sha256(encode_json(vm.spec.template.spec)).hexdigest()[:16]
    assert counted != template_hash(vm)
    vmi.metadata.annotations = {TEMPLATE_HASH: counted, VM_GENERATION: "0"}
    name(vm, {"root": wanted})
    assert needs_restart(vm, vmi, claims_move=is_carried) is (needed and not is_carried)
    vm.spec.template.spec.hostname = "other"
    assert needs_restart(vm, vmi, claims_move=is_carried)
