"""The ready-made instance types and preferences: each enters, and VMs of the usual sizes and systems do, too."""

from __future__ import annotations

import pytest

from kvedge.api.admission.admission_message import AdmissionRequest, GroupVersionResource
from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.instancetypes.typed_template import SeenTypes
from kvedge.api.admission.rules.subject import Cluster
from kvedge.controller.kubevirt.common_types_loop import make_common_objects, version_of
from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.application import VmTypes
from kvedge.resources.instancetypes.common_series import common_types
from kvedge.resources.instancetypes.common_systems import common_preferences

TYPES = {each["metadata"]["name"]: each for each in common_types()}
PREFERENCES = {each["metadata"]["name"]: each for each in common_preferences()}
CLUSTER = Cluster("amd64")


def request(document: JsonObject, group: str, plural: str) -> AdmissionRequest:
    resource = GroupVersionResource(group=group, version="v1", resource=plural)
    return AdmissionRequest(uid="u", operation="CREATE", resource=resource, name="x", object=document)


@pytest.mark.parametrize(
    "document", [*TYPES.values(), *PREFERENCES.values()], ids=lambda each: each["metadata"]["name"]
)
def test_each_enters(document: JsonObject) -> None:
    plural = f"{document['kind'].lower()}s"
    verdict = plan_verdict(request(document, "instancetype.kubevirt.io", plural), CLUSTER)
    assert (verdict.causes, verdict.warnings) == ((), ())
    labels = document["metadata"]["labels"]
    assert labels["instancetype.kubevirt.io/vendor"] == "kvedge.io"
    assert all(len(value) < 64 for value in labels.values())


def test_the_sizes_are_those_that_people_know() -> None:
    series = [name.partition(".")[0] for name in TYPES]
    assert {name: series.count(name) for name in dict.fromkeys(series)} == {
        "u1": 10,
        "o1": 9,
        "d1": 10,
        "cx1": 12,
        "m1": 10,
        "n1": 6,
        "rt1": 8,
    }
    for name, vcpus, memory in (
        ("u1.nano", 1, "512Mi"),
        ("u1.2xmedium", 2, "4Gi"),
        ("o1.8xlarge", 32, "128Gi"),
        ("cx1.xlarge1gi", 4, "8Gi"),
        ("m1.large", 2, "16Gi"),
        ("n1.medium", 4, "4Gi"),
        ("rt1.4xlarge", 16, "64Gi"),
    ):
        spec = TYPES[name]["spec"]
        assert (spec["cpu"]["guest"], spec["memory"]["guest"]) == (vcpus, memory), name
    assert TYPES["cx1.8xlarge"]["spec"]["cpu"]["maxSockets"] == 32


@pytest.mark.parametrize("name", PREFERENCES)
def test_a_vm_of_each_system_enters(name: str) -> None:
    template = {"spec": {"domain": {"devices": {}}, "volumes": [{"name": "root", "containerDisk": {"image": "x"}}]}}
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "x", "namespace": "ns"},
        "spec": {"runStrategy": "Halted", "template": template, "instancetype": {"name": "u1.8xlarge"}},
    }
    preference = PREFERENCES[name]["spec"]
    architecture = (preference.get("requirements") or {}).get("architecture", "amd64")
    template["spec"]["architecture"] = architecture
    seen = SeenTypes(VmTypes(TYPES["u1.8xlarge"]["spec"], preference))
    causes = plan_verdict(request(vm, "kubevirt.io", "virtualmachines"), CLUSTER, seen=seen).causes
    assert causes == ()


def test_the_version_is_that_of_all_objects_together() -> None:
    objects = make_common_objects()
    assert version_of(objects) == version_of(make_common_objects())
    objects[0]["spec"]["cpu"]["guest"] = 7
    assert version_of(objects) != version_of(make_common_objects())
    assert len(version_of(objects)) < 64
