# Tests: kvedge/api/admission/admission_plan.py, kvedge/api/admission/mutation_plan.py
# Tests: kvedge/controller/vm/vmi_template.py
"""A VM that enters can be started: what admission lets by as a template it also lets by as the VMI of it.

The VMI is what the controller makes of the VM and the webhook completes; of one that is refused its VM tells in a
condition only, and long after whoever wrote it has gone.
"""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.subject import Cluster
from kvedge.controller.vm.vmi_template import vmi_from_vm
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import parse_quantity
from tests.support.builders import CONFIG, put, small_vmi, vm_of
from tests.support.reviews import request
from tests.unit.api.admission.rules.test_spec_rules import RIGHT, WRONG

AMD = Cluster("amd64")
NOW = "2026-05-01T00:00:00Z"
# What the scheduler, and no rule, finds impossible; KubeVirt's own tests have the first.
UNSCHEDULABLE: dict[str, dict[str, Any]] = {
    "cpu and memory": {"requests": {"cpu": "1M", "memory": "1Ei"}},
    "cpu as a limit": {"limits": {"cpu": "600", "memory": "1Gi"}},
    "a fraction beyond the most": {"requests": {"cpu": "512500m", "memory": "1Gi"}},
    "both": {"requests": {"cpu": "513", "memory": "1Gi"}, "limits": {"cpu": "1k"}},
}


def vm_with(changes: dict[str, Any]) -> JsonObject:
    vmi = small_vmi()
    for path, value in changes.items():
        put(vmi["spec"], path, copy.deepcopy(value))
    return vm_of(vmi)


def sized(resources: dict[str, Any]) -> JsonObject:
    vm = vm_with({"domain.resources": resources})
    vm["spec"]["template"]["spec"]["domain"].pop("memory", None)
    return vm


def causes(document: JsonObject, **who: Any) -> list[str]:
    return [cause.message for cause in plan_verdict(request(document, **who), AMD).causes]


def started(vm: JsonObject) -> JsonObject:
    """The VMI that the controller makes of it, as it enters."""
    made = encode(vmi_from_vm(decode(VirtualMachine, vm), paused=False))
    made |= {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance"}
    review = request(made, groups=["kvedge:controllers"])
    entered: JsonObject = jsonpatch.apply_patch(made, plan_mutation(review, AMD, NOW))
    return entered


# A VM enters without memory, which a preset may give its VMIs.
@pytest.mark.parametrize("case", [*RIGHT, *(name for name in WRONG if name != "no memory")])
def test_the_vmi_of_a_vm_that_enters_enters(case: str) -> None:
    vm = vm_with(RIGHT[case] if case in RIGHT else WRONG[case][0])
    if case in RIGHT:
        assert causes(vm) == []
    if causes(vm) == []:
        assert causes(started(vm), groups=["kvedge:controllers"]) == []


@pytest.mark.parametrize("case", UNSCHEDULABLE)
def test_what_only_the_scheduler_can_judge_reaches_it(case: str) -> None:
    vm = sized(UNSCHEDULABLE[case])
    assert causes(vm) == []
    vmi = started(vm)
    assert causes(vmi, groups=["kvedge:controllers"]) == []
    assert vmi["spec"]["domain"]["cpu"]["sockets"] > 512
    pod = launcher_pod(decode(VirtualMachineInstance, vmi), CONFIG)
    asked = pod.spec.containers[0].resources
    assert asked is not None
    assert parse_quantity(asked.requests["cpu"]) > 512


def test_vcpus_that_are_written_down_are_refused_at_once() -> None:
    """A node may have room for so many shares of its CPUs, and QEMU none for so many vCPUs."""
    assert any("vCPUs are more than" in text for text in causes(vm_with({"domain.cpu": {"sockets": 600}})))
