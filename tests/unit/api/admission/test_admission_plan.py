"""What enters and what does not: whole documents through all rules."""

from __future__ import annotations

import copy

import jsonpatch
import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from tests.support.builders import put, small_vmi, smoke_vm, vm_of
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
NOW = "2026-01-02T03:04:05Z"


def mutated(document: JsonObject) -> JsonObject:
    return jsonpatch.apply_patch(document, plan_mutation(request(document), CLUSTER, NOW))


def messages(document: JsonObject) -> list[str]:
    return [cause.message for cause in plan_verdict(request(document), CLUSTER).causes]


def fields(document: JsonObject) -> list[str]:
    return [cause.field for cause in plan_verdict(request(document), CLUSTER).causes]


def test_the_manifest_of_a_real_user_enters_as_written() -> None:
    verdict = plan_verdict(request(mutated(smoke_vm())), CLUSTER)
    assert verdict.causes == ()
    assert verdict.warnings == ("spec.running is deprecated, please use spec.runStrategy instead.",)


def test_the_vmi_of_that_manifest_enters_too() -> None:
    template = smoke_vm()["spec"]["template"]
    vmi = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", **template}
    vmi["metadata"]["name"] = "kubevirt-smoke-fedora"
    assert messages(mutated(vmi)) == []


def test_all_causes_are_reported_each_with_its_path() -> None:
    vm = vm_of(small_vmi(), runStrategy="Sometimes")
    template = vm["spec"]["template"]["spec"]
    put(template, "domain.launchSecurity", {"sev": {}})
    put(template, "domain.devices.disks[0].cache", "turbo")
    put(template, "domain.cpu.treads", 2)
    assert set(fields(vm)) == {
        "spec.runStrategy",
        "spec.template.spec.domain.launchSecurity",
        "spec.template.spec.domain.devices.disks[0].cache",
        "spec.template.spec.domain.cpu.treads",
    }


@pytest.mark.parametrize(("strategy", "faults"), [("Migration", []), ("Replacement", []), ("Copy", [1])])
def test_claims_of_a_running_vm_change_in_two_ways(strategy: str, faults: list[int]) -> None:
    vm = vm_of(small_vmi(), runStrategy="Halted", updateVolumesStrategy=strategy)
    assert fields(vm) == ["spec.updateVolumesStrategy" for _ in faults]


def test_what_is_not_there_yet_is_refused_by_name_and_with_a_remedy() -> None:
    vm = vm_of(small_vmi(domain__clock={"utc": {}, "timer": {"hpet": {"frequency": 100}}}))
    path = "spec.template.spec.domain.clock.timer.hpet.frequency"
    assert messages(vm) == [f"{path}: not supported by kvedge 0.1; remove it"]


def test_a_misspelt_field_is_refused_with_the_name_that_was_meant() -> None:
    vmi = small_vmi(domain__devices__disk=[])
    assert messages(vmi) == ['unknown field "spec.domain.devices.disk"; did you mean "disks"?']


def test_a_document_that_does_not_fit_its_type_is_refused_and_not_a_crash() -> None:
    assert fields(small_vmi(domain__cpu__cores="four")) == ["spec.domain.cpu.cores"]


def test_a_spec_that_does_not_change_is_not_judged_again() -> None:
    old = vm_of(small_vmi(domain__launchSecurity={"sev": {}}))
    new = copy.deepcopy(old)
    new["metadata"]["finalizers"] = []
    assert plan_verdict(request(new, old), CLUSTER).causes == ()


@pytest.mark.parametrize("resource", ["VirtualMachine", "VirtualMachineInstance"])
def test_a_handler_makes_nothing(resource: str) -> None:
    document = small_vmi() if resource == "VirtualMachineInstance" else vm_of(small_vmi())
    verdict = plan_verdict(request(document, user="kvedge:handler:node1", groups=["kvedge:handlers"]), CLUSTER)
    assert [cause.field for cause in verdict.causes] == ["metadata.name"]


def test_a_delete_is_never_judged() -> None:
    deletion = request(None, old=small_vmi())
    deletion.operation = "DELETE"
    assert plan_verdict(deletion, CLUSTER).causes == ()


def test_a_vm_without_memory_enters_with_a_warning_as_a_preset_may_give_it_some() -> None:
    vmi = small_vmi()
    put(vmi["spec"], "domain.memory", None)
    verdict = plan_verdict(request(vm_of(vmi)), CLUSTER)
    assert verdict.causes == ()
    (warning,) = verdict.warnings
    assert warning.startswith("no memory requested, at least one of 'spec.template.spec.domain.memory.guest'")
    assert fields(vmi) == ["spec.domain"]


def test_an_annotation_that_no_pod_gets_is_accepted_with_a_warning() -> None:
    name = "k8s.v1.cni.cncf.io/networks"
    vm, vmi = vm_of(small_vmi()), small_vmi()
    vm["spec"]["template"].setdefault("metadata", {})["annotations"] = {name: "lan", "note": "x"}
    vmi["metadata"]["annotations"] = {name: "lan"}
    said = f"{name} is not handed on to the VM's pod"
    for document, where in ((vm, "spec.template.metadata"), (vmi, "metadata")):
        verdict = plan_verdict(request(document), CLUSTER)
        assert (verdict.causes, verdict.warnings) == ((), (f"{where}.annotations: {said}",))
