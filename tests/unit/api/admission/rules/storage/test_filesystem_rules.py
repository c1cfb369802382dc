"""Directories that a guest mounts by virtiofs: KubeVirt's gate, and what can be one."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.rules.causes import Field
from kvedge.api.admission.rules.storage.filesystem_rules import RULES
from kvedge.api.admission.rules.subject import Cluster, Subject
from kvedge.resources.codec import decode
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.configuration.feature_gates import VIRTIOFS_OF_CLAIMS, FeatureGates
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
SETTINGS = {"name": "settings", "configMap": {"name": "settings"}}
AT = "spec.domain.devices.filesystems"


def filesystem(name: str) -> dict[str, Any]:
    return {"name": name, "virtiofs": {}}


def messages(
    *volumes: dict[str, Any],
    filesystems: list[dict[str, Any]],
    gates: tuple[str, ...] = (VIRTIOFS_OF_CLAIMS,),
    **more: Any,
) -> list[str]:
    devices = {"filesystems": filesystems, **more}
    spec = decode(VirtualMachineInstanceSpec, {"domain": {"devices": devices}, "volumes": list(volumes)})
    cluster = Cluster("amd64", Configuration(gates=FeatureGates(frozenset(gates))))
    subject = Subject(spec, ObjectMeta(), Field("spec"), Field("metadata"), cluster)
    return [cause.message for rule in RULES for cause in rule(subject)]


@pytest.mark.parametrize("name", ["persistentVolumeClaim", "dataVolume"])
def test_the_directory_of_a_claim_needs_kubevirts_gate(name: str) -> None:
    volume = {"name": "data", name: {"claimName": "data"} if name == "persistentVolumeClaim" else {"name": "data"}}
    (refused,) = messages(volume, filesystems=[filesystem("data")], gates=())
    assert refused.startswith("virtiofs is not allowed: virtiofs feature gate is not enabled for PVC; name ")
    assert "EnableVirtioFsStorageVolumes in spec.configuration.developerConfiguration.featureGates" in refused
    assert messages(volume, filesystems=[filesystem("data")]) == []


@pytest.mark.parametrize(
    "source",
    [
        {"configMap": {"name": "a"}},
        {"secret": {"secretName": "a"}},
        {"serviceAccount": {"serviceAccountName": "a"}},
        {"downwardAPI": {"fields": []}},
    ],
    ids=lambda source: next(iter(source)),
)
def test_the_files_of_an_object_need_no_gate(source: dict[str, Any]) -> None:
    assert messages({"name": "a", **source}, filesystems=[filesystem("a")], gates=()) == []


@pytest.mark.parametrize(
    "source",
    [{"emptyDisk": {"capacity": "1Gi"}}, {"containerDisk": {"image": "a"}}, {"sysprep": {"secret": {"name": "a"}}}],
    ids=lambda source: next(iter(source)),
)
def test_a_volume_without_a_directory_is_refused_with_a_remedy(source: dict[str, Any]) -> None:
    (said,) = messages({"name": "a", **source}, filesystems=[filesystem("a")])
    assert said.startswith(f"{AT}[0]: volume 'a' has no directory to share; use a persistentVolumeClaim")


def test_each_has_one_name_a_kind_and_a_volume() -> None:
    assert messages(SETTINGS, filesystems=[filesystem("settings"), filesystem("settings")]) == [
        f"{AT}[0] and {AT}[1] must not have the same Name."
    ]
    assert messages(filesystems=[filesystem("nothing")]) == [f"{AT}[0].Name 'nothing' not found."]
    assert messages(SETTINGS, filesystems=[{"name": "settings"}]) == [
        f"{AT}[0].virtiofs is a required field: set it to {{}}"
    ]


def test_a_name_is_a_tag_that_fits_into_the_device() -> None:
    for size, faults in ((36, []), (37, [f"{AT}[0].name has 37 bytes: a guest takes tags of 36 at most"])):
        name = "a" * size
        assert messages({**SETTINGS, "name": name}, filesystems=[filesystem(name)]) == faults


def test_there_are_not_more_than_a_pod_has_room_for() -> None:
    volumes = [{**SETTINGS, "name": f"v{number}"} for number in range(17)]
    said = messages(*volumes, filesystems=[filesystem(each["name"]) for each in volumes])
    assert said == [f"{AT} list exceeds the 16 element limit in length"]


def test_a_disk_of_the_guest_is_no_directory_of_it_too() -> None:
    said = f"{AT}[0]: volume 'data' is a disk of the guest as well; use it for either, not for both"
    assert messages(CLAIM, filesystems=[filesystem("data")], disks=[{"name": "data", "disk": {}}]) == [said]
    again = {**CLAIM, "name": "again"}
    assert messages(CLAIM, again, filesystems=[filesystem("data")], disks=[{"name": "again", "disk": {}}]) == [said]


def test_a_volume_that_comes_later_is_refused() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data", "hotpluggable": True}}
    (said,) = messages(volume, filesystems=[filesystem("data")])
    assert "is hotpluggable, and filesystems are there from the guest's start; set hotpluggable: false" in said
