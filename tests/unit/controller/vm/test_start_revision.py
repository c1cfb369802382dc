"""The ControllerRevision of a start: when it is kept, what is in it, and which one goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvedge.controller.vm.vm_actions import CreateVmi, KeepRevision
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.controller.vm.vmi_template import vmi_from_vm
from kvedge.resources.codec import encode
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import NOW, VM_UID, a_vm

NAME = f"revision-start-vm-{VM_UID}"


def kept(vm: VirtualMachine, vmi: VirtualMachineInstance | None) -> KeepRevision | None:
    actions = [action for action in plan_vm(vm, vmi, NOW, 0.0).actions if isinstance(action, KeepRevision)]
    assert len(actions) <= 1
    return actions[0] if actions else None


def test_a_start_keeps_the_vms_spec_under_kubevirts_name() -> None:
    vm = a_vm()
    vm.metadata.generation = 4
    plan = plan_vm(vm, None, NOW, 0.0)
    made = next(action.vmi for action in plan.actions if isinstance(action, CreateVmi))
    found = kept(vm, None)
    assert found is not None
    revision = found.revision
    assert made.status.virtual_machine_revision_name == revision.metadata.name == f"{NAME}-4"
    assert (revision.metadata.namespace, revision.revision) == (vm.metadata.namespace, 4)
    assert revision.data == {"spec": encode(vm.spec)}
    (owner,) = revision.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.uid, owner.controller) == (
        "kubevirt.io/v1",
        "VirtualMachine",
        VM_UID,
        True,
    )


def test_the_run_is_made_before_what_is_kept_of_it() -> None:
    """A guest does not wait for it, and of a VMI that the server refuses nothing is left behind."""
    kinds = [type(action).__name__ for action in plan_vm(a_vm(), None, NOW, 0.0).actions]
    assert kinds.index("CreateVmi") < kinds.index("KeepRevision") < kinds.index("PatchVmStatus")


@pytest.mark.parametrize(("before", "superseded"), [(0, ""), (3, f"{NAME}-3"), (4, "")])
def test_the_revision_of_another_spec_goes(before: int, superseded: str) -> None:
    vm = a_vm()
    vm.metadata.generation = 4
    vm.status.observed_generation = before
    found = kept(vm, None)
    assert found is not None
    assert found.superseded == superseded


def a_lost_start(vm: VirtualMachine) -> VirtualMachineInstance:
    """A run whose controller ended before it wrote anything more."""
    vmi = vmi_from_vm(vm, paused=False)
    vmi.metadata.uid = "run"
    vmi.status.phase = "Scheduling"
    return vmi


def test_the_controller_after_one_that_ended_in_the_middle_of_a_start_keeps_it() -> None:
    vm = a_vm()
    found = kept(vm, a_lost_start(vm))
    assert found is not None
    assert found.revision.metadata.name == f"{NAME}-1"


def changed_since(vm: VirtualMachine, vmi: VirtualMachineInstance) -> None:
    vm.metadata.generation = 2


def told(vm: VirtualMachine, vmi: VirtualMachineInstance) -> None:
    vm.status.observed_generation = 1


def of_an_earlier_release(vm: VirtualMachine, vmi: VirtualMachineInstance) -> None:
    vmi.status.virtual_machine_revision_name = ""


def adopted(vm: VirtualMachine, vmi: VirtualMachineInstance) -> None:
    vmi.metadata.annotations.clear()


@pytest.mark.parametrize("what", [changed_since, told, of_an_earlier_release, adopted])
def test_nothing_is_kept_of_a_run_that_was_not_started_from_what_the_vm_is(
    what: Callable[[VirtualMachine, VirtualMachineInstance], None],
) -> None:
    vm = a_vm()
    vmi = a_lost_start(vm)
    what(vm, vmi)
    assert kept(vm, vmi) is None
