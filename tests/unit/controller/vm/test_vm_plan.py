# Tests: kvedge/controller/vm/vm_actions.py
"""What is done about a VM, and in which order."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from kvedge.controller.vm.vm_actions import AdoptVmi, CreateVmi, DeleteVmi, PatchVm, PatchVmi, PatchVmStatus, VmPlan
from kvedge.controller.vm.vm_plan import plan_create_failure, plan_vm
from kvedge.controller.vm.vmi_template import vmi_from_vm
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.snapshot_names import LAST_RESTORE, UNPATCHED
from kvedge.resources.identity import firmware_uuid, guest_mac
from kvedge.resources.meta import OwnerReference, condition
from kvedge.resources.names import RESERVED_LABELS, VM_FINALIZER, VMI_FINALIZER
from kvedge.resources.types.devices import Devices, EmptyBinding, Input, Interface
from kvedge.resources.types.vm import StartFailure, VirtualMachine, VirtualMachineStatus
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, VM_UID, VMI_UID, a_vm, a_vmi, asked, never_ran, patched


def kinds(plan: VmPlan) -> list[str]:
    return [type(action).__name__ for action in plan.actions]


def status_after(vm: VirtualMachine, plan: VmPlan) -> VirtualMachineStatus:
    """The VM's status once the plan is carried out."""
    document = encode(vm)
    for action in plan.actions:
        if isinstance(action, PatchVmStatus):
            document = patched(document, action.body)
    return decode(VirtualMachine, document).status


def only(plan: VmPlan, kind: type):
    return next(action for action in plan.actions if isinstance(action, kind))


def test_a_new_vm_gets_its_vmi_and_one_status():
    vm = a_vm()
    plan = plan_vm(vm, None, NOW, 0.0)
    assert kinds(plan) == ["CreateVmi", "KeepRevision", "PatchVmStatus"]
    status = status_after(vm, plan)
    assert (status.created, status.printable_status, status.run_strategy) == (True, "Starting", "Always")


def test_the_finalizer_is_there_before_the_vmi_is():
    vm = a_vm()
    vm.metadata.finalizers = ["other"]
    plan = plan_vm(vm, None, NOW, 0.0)
    assert kinds(plan)[:2] == ["PatchVm", "CreateVmi"]
    assert only(plan, PatchVm).body == {"metadata": {"finalizers": ["other", VM_FINALIZER]}}


def test_a_vm_that_still_looks_like_another_one_does_not_start():
    vm = a_vm()
    vm.metadata.annotations[LAST_RESTORE] = f"{UNPATCHED}twin-1"
    assert kinds(plan_vm(vm, None, NOW, 0.0)) == ["PatchVmStatus"]
    vm.metadata.annotations[LAST_RESTORE] = "twin-1"
    assert "CreateVmi" in kinds(plan_vm(vm, None, NOW, 0.0))


@pytest.mark.parametrize("what", ["snapshot", "restore"])
def test_a_vm_whose_disks_are_copied_starts_afterwards(what: str):
    vm = a_vm(**{f"{what}_in_progress": "before"})
    plan = plan_vm(vm, None, NOW, 0.0)
    assert kinds(plan) == ["PatchVmStatus"]
    vm.status = status_after(vm, plan)
    failure = condition(vm.status.conditions, "Failure")
    assert failure is not None
    assert failure.message == f'it starts once {what} "before" is complete'
    assert plan_vm(vm, None, NOW, 0.0) == VmPlan()
    setattr(vm.status, f"{what}_in_progress", None)
    started = plan_vm(vm, None, NOW, 0.0)
    assert kinds(started) == ["CreateVmi", "KeepRevision", "PatchVmStatus"]
    assert condition(status_after(vm, started).conditions, "Failure") is None


def test_a_halted_vm_costs_one_write_ever():
    vm = a_vm("Halted")
    vm.metadata.finalizers = []
    plan = plan_vm(vm, None, NOW, 0.0)
    assert kinds(plan) == ["PatchVmStatus"]
    vm.status = status_after(vm, plan)
    assert plan_vm(vm, None, NOW + timedelta(days=1), 0.0) == VmPlan()


def test_a_start_of_a_vm_costs_three_writes_until_its_guest_runs():
    vm = a_vm()
    plan = plan_vm(vm, None, NOW, 0.0)
    assert len(plan.actions) == 3
    vm.status = status_after(vm, plan)
    vmi = only(plan, CreateVmi).vmi
    vmi.metadata.uid = VMI_UID
    for phase in ("Pending", "Scheduling", "Scheduled"):
        vmi.status.phase = phase
        assert plan_vm(vm, vmi, NOW, 0.0) == VmPlan(), phase


def test_a_vmi_is_made_from_the_template_with_an_identity_of_its_own():
    vm = a_vm()
    assert vm.spec.template is not None
    vm.spec.template.metadata.labels = {"kubevirt.io/vm": "web"}
    vm.spec.template.metadata.annotations = {"note": "x"}
    nic = Interface(name="default", bridge=EmptyBinding())
    fixed = Interface(name="lan", bridge=EmptyBinding(), mac_address="02:00:00:00:00:01")
    vm.spec.template.spec.domain.devices.interfaces = [nic, fixed]
    vmi = vmi_from_vm(vm, paused=False)
    assert vmi.metadata.labels == {"kubevirt.io/vm": "web"}
    assert vmi.metadata.annotations["note"] == "x"
    assert vmi.metadata.annotations["kubevirt.io/vm-generation"] == "1"
    assert vmi.metadata.finalizers == [VMI_FINALIZER, VM_FINALIZER]
    owner = vmi.metadata.controller_reference()
    assert owner is not None
    assert (owner.kind, owner.uid, owner.block_owner_deletion) == ("VirtualMachine", VM_UID, True)
    macs = [interface.mac_address for interface in vmi.spec.domain.devices.interfaces]
    assert macs == [guest_mac(VM_UID, "default"), "02:00:00:00:00:01"]
    assert vmi.spec.domain.firmware is not None
    assert vmi.spec.domain.firmware.uuid == firmware_uuid(VM_UID)
    assert nic.mac_address == "", "the VM's own template must not change"


@pytest.mark.parametrize(
    ("devices", "inputs"),
    [
        (Devices(autoattach_input_device=True), [Input(name="default-0", type="tablet", bus="usb")]),
        (Devices(autoattach_input_device=True, inputs=[Input(name="own")]), [Input(name="own")]),
        (Devices(autoattach_input_device=False), []),
        (Devices(), []),
    ],
)
def test_a_vmi_shows_the_tablet_that_is_attached_by_itself(devices: Devices, inputs: list[Input]):
    vm = a_vm()
    assert vm.spec.template is not None
    vm.spec.template.spec.domain.devices = devices
    assert vmi_from_vm(vm, paused=False).spec.domain.devices.inputs == inputs


@pytest.mark.parametrize("label", sorted(RESERVED_LABELS))
def test_no_run_gets_a_label_by_its_vm_that_roles_act_on(label: str):
    vm = a_vm()
    assert vm.spec.template is not None
    vm.spec.template.metadata.labels = {label: "node-2", "team": "blue"}
    assert vmi_from_vm(vm, paused=False).metadata.labels == {"team": "blue"}
    assert label in vm.spec.template.metadata.labels


def test_a_vm_does_not_start_with_a_data_volume_that_it_may_not_use_and_says_why():
    vm = a_vm()
    plan = plan_vm(vm, None, NOW, 0.0, blocked="DataVolume root belongs to VirtualMachine other (UID u)")
    assert kinds(plan) == ["PatchVmStatus"]
    vm.status = status_after(vm, plan)
    (failure,) = [item for item in vm.status.conditions if item.type == "Failure"]
    assert (failure.reason, failure.message) == (
        "FailedCreate",
        "DataVolume root belongs to VirtualMachine other (UID u)",
    )
    assert plan_vm(vm, None, NOW, 0.0, blocked=failure.message) == VmPlan()
    after = plan_vm(vm, None, NOW, 0.0)
    assert isinstance(after.actions[0], CreateVmi)
    assert not any(item.type == "Failure" for item in status_after(vm, after).conditions)


def test_a_paused_start_makes_a_paused_vmi_and_is_met_by_it():
    vm = a_vm("Manual", state_change_requests=[asked("Start", paused="true")], run_strategy="Manual")
    plan = plan_vm(vm, None, NOW, 0.0)
    assert only(plan, CreateVmi).vmi.spec.start_strategy == "Paused"
    assert status_after(vm, plan).state_change_requests == []


@pytest.mark.parametrize("by_running", [True, False], ids=["running", "runStrategy"])
def test_a_paused_start_of_a_halted_vm_turns_it_on(by_running):
    vm = a_vm("Halted", state_change_requests=[asked("Start", paused="true")])
    if by_running:
        vm.spec.run_strategy, vm.spec.running = None, False
    plan = plan_vm(vm, None, NOW, 0.0)
    wanted = {"running": True} if by_running else {"runStrategy": "Always"}
    assert plan.actions == (PatchVm({"spec": wanted}),)


def test_a_stop_records_first_and_deletes_then():
    vm = a_vm("Halted")
    vmi = a_vmi("Running", owner=vm)
    plan = plan_vm(vm, vmi, NOW, 0.0)
    assert kinds(plan) == ["PatchVmStatus", "DeleteVmi"]
    assert status_after(vm, plan).printable_status == "Stopping"
    vm.status = status_after(vm, plan)
    vmi.metadata.deletion_timestamp = rfc3339(NOW)
    assert plan_vm(vm, vmi, NOW, 0.0) == VmPlan()


def test_a_run_that_failed_early_is_counted_before_it_may_go():
    vm = a_vm()
    vmi = never_ran(a_vmi("Failed", owner=vm))
    plan = plan_vm(vm, vmi, NOW, 0.0)
    assert kinds(plan) == ["PatchVmStatus", "PatchVmi", "DeleteVmi"]
    status = status_after(vm, plan)
    assert status.start_failure is not None
    assert status.start_failure.consecutive_fail_count == 1
    assert status.printable_status == "CrashLoopBackOff"
    assert only(plan, PatchVmi).body == {"metadata": {"finalizers": [VMI_FINALIZER]}}


def test_a_vm_in_back_off_says_when_to_look_again():
    retry = rfc3339(NOW + timedelta(seconds=40))
    vm = a_vm(start_failure=StartFailure(consecutive_fail_count=2, retry_after_timestamp=retry))
    plan = plan_vm(vm, None, NOW, 0.0)
    assert plan.again_after == 40
    assert kinds(plan) == ["PatchVmStatus"]
    vm.status = status_after(vm, plan)
    assert plan_vm(vm, None, NOW + timedelta(seconds=41), 0.0).actions[0] == CreateVmi(vmi_from_vm(vm, False))


def test_rerun_on_failure_keeps_the_wish_to_start_until_the_start_has_happened():
    vm = a_vm("RerunOnFailure", run_strategy="RerunOnFailure")
    crashed = a_vmi("Failed", owner=vm)
    plan = plan_vm(vm, crashed, NOW, 0.0)
    assert kinds(plan) == ["PatchVmStatus", "PatchVmi", "DeleteVmi"]
    vm.status = status_after(vm, plan)
    assert [request.action for request in vm.status.state_change_requests] == ["Start"]
    again = plan_vm(vm, None, NOW, 0.0)
    assert kinds(again) == ["CreateVmi", "KeepRevision", "PatchVmStatus"]
    assert status_after(vm, again).state_change_requests == []


def test_a_switch_to_rerun_on_failure_is_not_forgotten_while_the_start_waits():
    retry = rfc3339(NOW + timedelta(seconds=40))
    failure = StartFailure(consecutive_fail_count=2, retry_after_timestamp=retry)
    vm = a_vm("RerunOnFailure", run_strategy="Halted", start_failure=failure)
    assert status_after(vm, plan_vm(vm, None, NOW, 0.0)).run_strategy == "Halted"


def test_a_manual_vm_keeps_its_finished_run_but_lets_its_object_go():
    vm = a_vm("Manual", run_strategy="Manual")
    plan = plan_vm(vm, a_vmi("Succeeded", owner=vm), NOW, 0.0)
    assert kinds(plan) == ["PatchVmStatus", "PatchVmi"]


def test_a_vmi_without_an_owner_is_adopted():
    vm, vmi = a_vm(), a_vmi("Running")
    vmi.metadata.owner_references = [OwnerReference(api_version="v1", kind="Note", name="n", uid="n")]
    (adopt,) = plan_vm(vm, vmi, NOW, 0.0).actions
    assert isinstance(adopt, AdoptVmi)
    metadata = adopt.body["metadata"]
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["n", VM_UID]
    assert metadata["finalizers"] == [VMI_FINALIZER, VM_FINALIZER]


@pytest.mark.parametrize("deleting", [True, False])
def test_a_vmi_of_another_owner_is_neither_adopted_nor_deleted(deleting):
    vm, vmi = a_vm(), a_vmi("Running", deleting=deleting)
    vmi.metadata.owner_references = [
        OwnerReference(api_version="v1", kind="Other", name="o", uid="stranger", controller=True)
    ]
    plan = plan_vm(vm, vmi, NOW, 0.0)
    assert kinds(plan) == ["PatchVmStatus"]
    failure = condition(status_after(vm, plan).conditions, "Failure")
    assert (failure is None) == deleting
    if failure is not None:
        assert failure.reason == "FailedCreate"
        assert "belongs to Other o" in failure.message


def test_a_vmi_of_an_earlier_vm_of_the_same_name_is_waited_for():
    earlier = a_vm()
    earlier.metadata.uid = "an-earlier-vm"
    plan = plan_vm(a_vm(), a_vmi("Running", deleting=True, owner=earlier), NOW, 0.0)
    assert kinds(plan) == ["PatchVmStatus"]


def test_a_deleted_vm_stops_its_vmi_first_and_goes_last():
    vm = a_vm()
    vm.metadata.deletion_timestamp = rfc3339(NOW)
    vmi = a_vmi("Running", owner=vm)
    plan = plan_vm(vm, vmi, NOW, 0.0)
    assert kinds(plan) == ["PatchVmStatus", "DeleteVmi"]
    assert status_after(vm, plan).printable_status == "Terminating"
    vm.status = status_after(vm, plan)
    vmi.metadata.deletion_timestamp = rfc3339(NOW)
    assert plan_vm(vm, vmi, NOW, 0.0) == VmPlan()
    assert plan_vm(vm, None, NOW, 0.0).actions == (PatchVm({"metadata": {"finalizers": []}}),)


def test_a_vm_deleted_with_orphan_leaves_its_vmi_running_and_free():
    vm = a_vm()
    vm.metadata.deletion_timestamp = rfc3339(NOW)
    vm.metadata.finalizers = ["orphan", VM_FINALIZER]
    plan = plan_vm(vm, a_vmi("Running", owner=vm), NOW, 0.0)
    assert kinds(plan) == ["PatchVmi", "PatchVm"]
    assert only(plan, PatchVmi).body == {"metadata": {"finalizers": [VMI_FINALIZER], "ownerReferences": []}}
    assert only(plan, PatchVm).body == {"metadata": {"finalizers": ["orphan"]}}


def test_a_deleted_vm_does_not_end_a_vmi_that_is_not_its_own():
    vm = a_vm()
    vm.metadata.deletion_timestamp = rfc3339(NOW)
    plan = plan_vm(vm, a_vmi("Running"), NOW, 0.0)
    assert not any(isinstance(action, DeleteVmi | PatchVmi) for action in plan.actions)


def test_a_vmi_that_could_not_be_created_is_a_condition_and_counts_as_nothing_started():
    vm = a_vm("RerunOnFailure", run_strategy="Halted", state_change_requests=[asked("Start")])
    plan = plan_create_failure(vm, "quota exceeded", NOW)
    status = status_after(vm, plan)
    failure = condition(status.conditions, "Failure")
    assert failure is not None
    assert (failure.reason, failure.message) == ("FailedCreate", "quota exceeded")
    assert (status.created, status.run_strategy) == (False, "Halted")
    assert len(status.state_change_requests) == 1
    vm.status = status
    started = status_after(vm, plan_vm(vm, None, NOW, 0.0))
    assert condition(started.conditions, "Failure") is None


def test_the_same_refusal_again_writes_nothing():
    vm = a_vm()
    vm.status = status_after(vm, plan_create_failure(vm, "quota exceeded", NOW))
    assert plan_create_failure(vm, "quota exceeded", NOW + timedelta(minutes=1)) == VmPlan()


def test_planning_changes_nothing_of_what_it_was_given():
    vm = a_vm()
    vmi = never_ran(a_vmi("Failed", owner=vm))
    before = msgspec.json.encode(vm), msgspec.json.encode(vmi)
    plan_vm(vm, vmi, NOW, 0.0)
    assert (msgspec.json.encode(vm), msgspec.json.encode(vmi)) == before
