"""Which memory of a VM is carried to its run, and which waits for a restart."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vm.memory_changes import plan_memory
from kvedge.controller.vm.vm_actions import ChangeRun, Hotplug, Live, Rollout
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.controller.vm.vmi_template import vmi_from_vm
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.meta import Condition
from kvedge.resources.names import VM_FINALIZER
from kvedge.resources.types.domain import DomainSpec, Memory
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import MemoryStatus, VirtualMachineInstance
from tests.support.builders import NOW, a_vm
from tests.unit.controller.vm.test_template_changes import outcome

GENERIC = "a non-live-updatable field was changed in the template spec"
UPDATED = "memory updated in template spec"
LIVE = Hotplug(rollout=Rollout(is_live=True))


def a_run(most: str | None = "4Gi", **domain: Any) -> tuple[VirtualMachine, VirtualMachineInstance]:
    """A VM and its running guest of 2Gi, as admission has made it; it was started with 1Gi."""
    vm = a_vm()
    vm.metadata.finalizers = [VM_FINALIZER]
    assert vm.spec.template is not None
    vm.spec.template.spec.domain = decode(DomainSpec, {"memory": {"guest": "2Gi"}, **domain})
    vmi = vmi_from_vm(vm, paused=False)
    vmi.metadata.uid, vmi.status.phase = "u", "Running"
    vmi.spec.architecture = "amd64"
    assert vmi.spec.domain.memory is not None
    # The VMI's own, as the VM and its run would share one.
    vmi.spec.domain = decode(DomainSpec, {"memory": {"guest": "2Gi", "maxGuest": most}, **domain})
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current="2Gi", guest_requested="2Gi")
    return vm, vmi


def with_memory(vm: VirtualMachine, guest: str | None) -> VirtualMachine:
    assert vm.spec.template is not None
    vm.spec.template.spec.domain.memory = Memory(guest=guest) if guest else None
    vm.metadata.generation += 1
    return vm


def body(guest: str) -> JsonObject:
    return {"spec": {"domain": {"memory": {"guest": guest}}}}


@pytest.mark.parametrize("guest", ["3Gi", "4Gi", "1Gi", "2050Mi"])
def test_memory_grows_and_shrinks_where_changes_are_rolled_out_live(guest: str) -> None:
    vm, vmi = a_run()
    assert outcome(with_memory(vm, guest), vmi) == ("", body(guest))
    assert outcome(vm, vmi, Hotplug()) == (GENERIC, {})


def test_the_change_is_carried_under_kubevirts_name_for_its_failures() -> None:
    vm, vmi = a_run()
    (change,) = (
        each for each in plan_vm(with_memory(vm, "3Gi"), vmi, NOW, 0.5, LIVE).actions if isinstance(each, ChangeRun)
    )
    assert (change.what, change.what.value) == (Live.MEMORY, "HotPlugMemoryError")


@pytest.mark.parametrize(
    ("request_before", "guest", "after"), [("2Gi", "3Gi", "3Gi"), ("3Gi", "1Gi", "2Gi"), ("1Gi", "3Gi", "3Gi")]
)
def test_a_request_changes_with_the_guest_and_is_never_below_it(request_before: str, guest: str, after: str) -> None:
    vm, vmi = a_run(resources={"requests": {"memory": request_before}})
    template = with_memory(vm, guest).spec.template
    assert template is not None
    assert plan_memory(template.spec, vmi)["spec"]["domain"]["resources"] == {"requests": {"memory": after}}


def test_a_limit_changes_with_the_guest_too() -> None:
    vm, vmi = a_run(resources={"limits": {"memory": "3Gi"}})
    template = with_memory(vm, "3Gi").spec.template
    assert template is not None
    assert plan_memory(template.spec, vmi)["spec"]["domain"]["resources"] == {"limits": {"memory": "4Gi"}}


@pytest.mark.parametrize(
    ("guest", "message"),
    [
        ("5Gi", f"{UPDATED} to a value higher than what's available"),
        ("512Mi", f"{UPDATED} to a value lower than what the VM started with"),
        ("2049Mi", "memory hotplug not supported, Guest memory must be 2Mi aligned"),
    ],
    ids=["no room", "less than at start", "no blocks"],
)
def test_what_a_running_guest_cannot_have_asks_for_a_restart_by_name(guest: str, message: str) -> None:
    vm, vmi = a_run()
    assert outcome(with_memory(vm, guest), vmi) == (message, {})


@pytest.mark.parametrize(
    ("most", "domain", "message"),
    [
        (None, {}, f"{UPDATED}. Memory-hotplug is not available for this VM configuration"),
    ],
    ids=["no room at all"],
)
def test_some_guests_keep_their_memory_until_a_restart(most: str | None, domain: JsonObject, message: str) -> None:
    vm, vmi = a_run(most, **domain)
    assert outcome(with_memory(vm, "3Gi"), vmi) == (message, {})


def test_no_memory_is_plugged_in_on_arm() -> None:
    vm, vmi = a_run()
    vmi.spec.architecture = "arm64"
    told, carried = outcome(with_memory(vm, "3Gi"), vmi)
    assert (told, carried) == ("memory hotplug not supported, Memory hotplug is only available for x86_64 VMs", {})


@pytest.mark.parametrize(("message", "carried"), [("", {}), ("the node has no memory", body("3Gi"))])
def test_the_next_memory_waits_for_the_one_before_unless_that_cannot_come(message: str, carried: JsonObject) -> None:
    vm, vmi = a_run()
    vmi.status.conditions = [Condition(type="HotMemoryChange", status="True", message=message)]
    assert outcome(with_memory(vm, "3Gi"), vmi) == ("", carried)


def test_a_change_that_needs_a_restart_holds_memory_up() -> None:
    vm, vmi = a_run()
    assert vm.spec.template is not None
    vm.spec.template.spec.hostname = "another"
    assert outcome(with_memory(vm, "3Gi"), vmi) == (GENERIC, {})


def test_a_template_that_says_nothing_leaves_memory_to_a_preset() -> None:
    vm, vmi = a_run()
    assert outcome(with_memory(vm, None), vmi) == ("", {})
