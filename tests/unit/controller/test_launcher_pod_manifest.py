"""The launcher Pod that is rendered for a VMI."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.controller.launcher_pod_manifest import hostname, launcher_pod, launcher_pod_name
from kvedge.controller.launcher_pod_volumes import launcher_volumes
from kvedge.resources.codec import encode
from kvedge.resources.vmi import VirtualMachineInstance
from tests.unit.controller.builders import CONFIG, a_vmi
from tests.unit.controller.golden_cases import GoldenPod, golden_pods

CASES = golden_pods()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_vmi_becomes_its_golden_pod(case: GoldenPod):
    assert case.rendered == case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_volume_is_mounted_once_and_parents_come_before_children(case: GoldenPod):
    spec = case.rendered["spec"]
    paths = [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    names = [mount["name"] for mount in spec["containers"][0]["volumeMounts"]]
    assert names == [volume["name"] for volume in spec["volumes"]]
    assert len(set(paths)) == len(paths)
    for index, path in enumerate(paths):
        assert not any(path.startswith(f"{later}/") for later in paths[index + 1 :])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_of_the_host_is_writable(case: GoldenPod):
    spec = case.rendered["spec"]
    from_host = {volume["name"] for volume in spec["volumes"] if "hostPath" in volume}
    mounts = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] in from_host]
    assert mounts
    assert all(mount["readOnly"] for mount in mounts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_launcher_has_no_privilege_and_no_token(case: GoldenPod):
    spec = case.rendered["spec"]
    security = spec["containers"][0]["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not security["allowPrivilegeEscalation"]
    assert spec["securityContext"]["runAsUser"] == 107
    assert spec["automountServiceAccountToken"] is False


def test_the_golden_cases_use_every_field_that_the_manifest_can_set():
    used: set[str] = set()
    for case in CASES:
        used |= set(case.rendered["spec"]) | set(case.rendered["spec"]["containers"][0])
    rendered_by_others = {"nodeName", "initContainers", "serviceAccountName", "hostNetwork"}
    fields = {field.encode_name for field in msgspec.structs.fields(type(launcher_pod(a_vmi(), CONFIG).spec))}
    assert fields - rendered_by_others <= used


def test_two_runs_of_a_vm_have_different_pod_names_and_one_run_always_the_same():
    first, second = a_vmi(), a_vmi()
    second.metadata.uid = "44444444-4444-4444-4444-444444444444"
    assert launcher_pod_name(first) == launcher_pod_name(first)
    assert launcher_pod_name(first) != launcher_pod_name(second)


@given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,100}[a-z0-9])?", fullmatch=True).filter(lambda name: ".." not in name))
def test_names_and_labels_fit_kubernetes_rules_whatever_the_vmi_is_called(name: str):
    vmi = VirtualMachineInstance()
    vmi.metadata.name, vmi.metadata.uid = name, "some-uid"
    pod = launcher_pod(vmi, CONFIG)
    assert len(pod.metadata.name) <= 63
    assert all(len(value) <= 63 for value in pod.metadata.labels.values())
    assert not hostname(vmi).endswith("-")
    assert "." not in hostname(vmi)


def test_labels_of_long_names_stay_apart():
    one, two = a_vmi(), a_vmi()
    one.metadata.name, two.metadata.name = "a" * 70 + "1", "a" * 70 + "2"
    labels = [launcher_pod(vmi, CONFIG).metadata.labels["vmi.kubevirt.io/id"] for vmi in (one, two)]
    assert labels[0] != labels[1]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("registry:5000/disk", "Always"),
        ("registry:5000/disk:latest", "Always"),
        ("registry:5000/disk:1.0", "IfNotPresent"),
        ("disk@sha256:00", "IfNotPresent"),
    ],
)
def test_an_image_without_a_pull_policy_is_pulled_as_kubernetes_does(image, policy):
    vmi = a_vmi()
    vmi.spec = msgspec.convert({"volumes": [{"name": "d", "containerDisk": {"image": image}}]}, type(vmi.spec))
    last = launcher_volumes(vmi, CONFIG)[-1]
    assert encode(last.volume)["image"] == {"reference": image, "pullPolicy": policy}
