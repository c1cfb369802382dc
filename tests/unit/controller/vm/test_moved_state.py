# Tests: kvedge/resources/disks/state_claims.py, kvedge/controller/vm/vm_plan.py
"""The claim to which a migration has brought the state of TPM and firmware: named by VMI and VM before another run may
start, and never exchanged before the target has said that all of it is there.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vm.vm_actions import AdoptVmi, PatchVm, VmPlan
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.resources.disks.state_claims import (
    STATE_CLAIM,
    as_state_moved,
    coming_claim_name,
    moved_claim_of,
    state_claim_name,
    state_claim_of_run,
)
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import NOW, a_vm, a_vmi, vmi_with

OLD, NEW = state_claim_name("web"), coming_claim_name("web", "m-1")
TPM: dict[str, Any] = {"domain": {"devices": {"tpm": {"persistent": True}}}}


def a_run(vm: VirtualMachine, phase: Any = "Running", *, taken: bool = True, **names: str) -> VirtualMachineInstance:
    """A run of the VM that has moved, or was about to."""
    vmi = a_vmi(phase, owner=vm)
    vmi.spec = vmi_with(TPM).spec
    names = {"source_persistent_state_pvc_name": OLD, "target_persistent_state_pvc_name": NEW, **names}
    stamp = "2026-01-02T03:00:00Z" if taken else None
    vmi.status.migration_state = MigrationState(
        migration_uid="m-1", source_node_domain_gone_timestamp=stamp, target_taken_timestamp=stamp, **names
    )
    return vmi


def marks(plan: VmPlan) -> list[Any]:
    """What is written into the VM's annotations, alone."""
    patches = [action.body for action in plan.actions if isinstance(action, PatchVm)]
    return [body["metadata"]["annotations"] for body in patches if "annotations" in body.get("metadata", {})]


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_a_vm_names_the_claim_before_its_run_may_go(phase: str) -> None:
    vm = a_vm()
    plan = plan_vm(vm, a_run(vm, phase), NOW, 0.5)
    assert marks(plan) == [{STATE_CLAIM: NEW}]
    # Nothing besides: the run keeps its finalizer, and no other one starts.
    assert len(plan.actions) == 1


def test_a_vm_names_no_claim_of_which_the_target_has_said_nothing() -> None:
    vm = a_vm()
    assert marks(plan_vm(vm, a_run(vm, "Failed", taken=False), NOW, 0.5)) == []


def test_a_vm_names_no_claim_while_its_source_may_write_the_one_of_before() -> None:
    vm = a_vm()
    vmi = a_run(vm, "Failed")
    assert vmi.status.migration_state is not None
    vmi.status.migration_state.source_node_domain_gone_timestamp = None
    vmi.status.migration_state.source_pod_gone_timestamp = "2026-01-02T03:00:00Z"
    assert marks(plan_vm(vm, vmi, NOW, 0.5)) == []
    assert state_claim_of_run(vmi) == OLD


def test_a_vm_that_names_it_goes_on() -> None:
    vm = a_vm()
    vm.metadata.annotations[STATE_CLAIM] = NEW
    assert marks(plan_vm(vm, a_run(vm), NOW, 0.5)) == []


def test_a_vm_that_names_a_claim_of_its_own_keeps_that() -> None:
    vm = a_vm()
    vm.metadata.annotations[STATE_CLAIM] = "restored"
    assert marks(plan_vm(vm, a_run(vm), NOW, 0.5)) == []


def test_the_claim_of_a_run_is_the_source_s_until_the_target_has_spoken() -> None:
    vm = a_vm()
    assert state_claim_of_run(a_run(vm, taken=False)) == OLD
    assert state_claim_of_run(a_run(vm)) == NEW


def test_a_run_that_moved_twice_is_on_the_second_claim() -> None:
    second = coming_claim_name("web", "m-2")
    vmi = a_run(a_vm(), source_persistent_state_pvc_name=NEW, target_persistent_state_pvc_name=second)
    vmi.metadata.annotations[STATE_CLAIM] = NEW
    assert state_claim_of_run(vmi) == second
    vmi.metadata.annotations[STATE_CLAIM] = second
    assert (state_claim_of_run(vmi), moved_claim_of(vmi.metadata, vmi)) == (second, "")


def test_a_vm_that_began_with_the_claim_of_its_name_names_the_other_as_well() -> None:
    vm = a_vm()
    # A user's word, once, after a restore's claim had gone. The next run must not have the TPM of before the move.
    vm.metadata.annotations[STATE_CLAIM] = ""
    assert marks(plan_vm(vm, a_run(vm), NOW, 0.5)) == [{STATE_CLAIM: NEW}]


def test_a_vm_that_adopts_a_run_which_has_moved_names_its_claim() -> None:
    second = coming_claim_name("web", "m-2")
    run = a_run(a_vm(), source_persistent_state_pvc_name=NEW, target_persistent_state_pvc_name=second)
    run.metadata.annotations[STATE_CLAIM] = NEW
    run.metadata.owner_references = []
    plan = plan_vm(a_vm(), run, NOW, 0.5)
    assert [type(action) for action in plan.actions] == [PatchVm, AdoptVmi]
    assert marks(plan) == [{STATE_CLAIM: second}]
    for word in ("", "restored"):
        vm = a_vm()
        vm.metadata.annotations[STATE_CLAIM] = word
        assert marks(plan_vm(vm, run, NOW, 0.5)) == []


@pytest.mark.parametrize(("modes", "name"), [(["ReadWriteOnce"], NEW), (["ReadWriteMany"], OLD)])
def test_the_target_s_pod_has_a_claim_of_its_own_where_none_is_shared(modes: list[str], name: str) -> None:
    info = {"name": "persistent-state-for-this-vm", "target": "", "persistentVolumeClaimInfo": {"accessModes": modes}}
    vmi = vmi_with(TPM, {"volumeStatus": [info]})
    assert state_claim_of_run(as_state_moved(vmi, "m-1")) == name
    assert state_claim_of_run(as_state_moved(vmi_with({}, {"volumeStatus": [info]}), "m-1")) == OLD


def test_the_longest_name_of_a_vm_leaves_room_for_the_migration_s_part() -> None:
    long = "v" * 253
    names = {coming_claim_name(long, "m-1"), coming_claim_name(long, "m-2"), state_claim_name(long)}
    assert (len(names), max(map(len, names))) == (3, 253)
