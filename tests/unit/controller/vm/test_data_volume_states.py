"""What a VM says while its DataVolumes are not full, and when they fail."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vm.data_volume_states import tell_failures
from kvedge.controller.vm.vm_actions import PatchVmStatus
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.resources.codec import decode
from kvedge.resources.meta import Condition
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import NOW, a_vm, a_vmi


def a_data_volume(phase: str, bound: tuple[str, str] = ("True", "Bound"), running: str = "") -> DataVolume:
    conditions = [
        {"type": "Bound", "status": bound[0], "reason": bound[1], "message": "no room"},
        {"type": "Running", "status": "False", "reason": running, "message": "404"},
    ]
    return decode(
        DataVolume,
        {
            "metadata": {"name": "root", "namespace": "default", "uid": "dv-1"},
            "status": {"phase": phase, "conditions": conditions},
        },
    )


def word(vm: VirtualMachine, vmi: VirtualMachineInstance | None, *data_volumes: DataVolume) -> Any:
    plan = plan_vm(vm, vmi, NOW, 0.0, data_volumes=data_volumes)
    written = [action.body["status"] for action in plan.actions if isinstance(action, PatchVmStatus)]
    return written[-1].get("printableStatus")


def waiting_for_its_claim(vm: VirtualMachine) -> VirtualMachineInstance:
    vmi = a_vmi("Pending", owner=vm)
    vmi.status.conditions = [Condition(type="Synchronized", status="False", reason="FailedPvcNotFound")]
    return vmi


UNBOUND = ("False", "Pending")
# What is seen of the DataVolume, the word of a VM that starts, and that of a halted one.
CASES = {
    "it has failed for good": (a_data_volume("Failed"), "DataVolumeError", "DataVolumeError"),
    "its worker has failed": (a_data_volume("ImportInProgress", running="Error"), "DataVolumeError", "DataVolumeError"),
    "its image cannot be pulled": (
        a_data_volume("ImportScheduled", running="ImagePullFailed"),
        "DataVolumeError",
        "DataVolumeError",
    ),
    "nobody has looked at it": (a_data_volume("", UNBOUND), "Provisioning", "Provisioning"),
    "it is filled": (a_data_volume("ImportInProgress"), "Provisioning", "Provisioning"),
    "it waits for a guest": (a_data_volume("WaitForFirstConsumer", UNBOUND), "WaitingForVolumeBinding", "Stopped"),
    "the launcher is to bind it": (a_data_volume("PendingPopulation", UNBOUND), "WaitingForVolumeBinding", "Stopped"),
    "it is full": (a_data_volume("Succeeded", running="Completed"), "ErrorPvcNotFound", "Stopped"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_vm_says_what_its_data_volume_waits_for(case: str) -> None:
    data_volume, starting, halted = CASES[case]
    vm = a_vm()
    assert word(vm, waiting_for_its_claim(vm), data_volume) == starting
    assert word(a_vm("Halted"), None, data_volume) == halted


def test_one_that_has_failed_is_told_before_one_that_is_filled() -> None:
    vm = a_vm()
    seen = (a_data_volume("ImportInProgress"), a_data_volume("Failed"))
    assert word(vm, waiting_for_its_claim(vm), *seen) == "DataVolumeError"


def test_a_guest_that_runs_is_running_whatever_is_copied_for_it() -> None:
    vm = a_vm()
    assert word(vm, a_vmi("Running", owner=vm), a_data_volume("Failed")) == "Running"


def test_a_failure_and_a_quota_are_worth_a_warning_and_a_worker_that_is_tried_again_is_not() -> None:
    seen = [
        a_data_volume("Failed"),
        a_data_volume("Pending", ("False", "ErrExceededQuota")),
        a_data_volume("ImportInProgress", running="Error"),
    ]
    assert list(tell_failures(seen)) == [
        ("dv-1", "DataVolume root failed to import disk image"),
        ("dv-1", "DataVolume root exceeds quota limits"),
    ]
