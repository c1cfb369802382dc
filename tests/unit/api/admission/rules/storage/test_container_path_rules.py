"""Directories that others mount into launchers: KubeVirt's gate, and KubeVirt's words for what is none."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.configuration.configuration import DEFAULTS, Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from tests.support.builders import put, small_vmi
from tests.support.reviews import request

ALLOWED = Configuration(gates=FeatureGates(enabled=frozenset({"ContainerPathVolumes"})))
AT = "spec.volumes[1]"
TOKEN = {"path": "/var/run/secrets/cloud"}


def causes(
    source: dict[str, Any], configuration: Configuration = ALLOWED, *, shared: bool = True, disk: bool = False
) -> list[tuple[str, str]]:
    vmi = small_vmi()
    put(vmi, "spec.volumes[1]", {"name": "cloud", "containerPath": source})
    if shared:
        put(vmi, "spec.domain.devices.filesystems", [{"name": "cloud", "virtiofs": {}}])
    if disk:
        put(vmi, "spec.domain.devices.disks[1]", {"name": "cloud", "disk": {"bus": "virtio"}})
    verdict = plan_verdict(request(vmi), Cluster("amd64", configuration))
    return [(str(cause.field), cause.message) for cause in verdict.causes]


def test_a_path_that_is_a_filesystem_enters() -> None:
    assert causes(TOKEN) == []
    assert causes(TOKEN | {"readOnly": True}) == []


def test_nothing_enters_without_the_gate() -> None:
    ((field, message),) = causes(TOKEN, DEFAULTS)
    assert field == AT
    assert message.startswith(
        "VMI has ContainerPath volumes but the ContainerPathVolumes feature gate is disabled; name ContainerPathVolumes"
    )


def test_a_path_is_a_filesystem_and_no_disk() -> None:
    assert causes(TOKEN, disk=True) == [
        (AT, "ContainerPath volume 'cloud' must be mapped to a filesystem, not a disk"),
    ]
    assert causes(TOKEN, shared=False) == [
        (
            AT,
            "ContainerPath volume 'cloud' must have a matching filesystem defined in spec.domain.devices.filesystems",
        )
    ]


@pytest.mark.parametrize(
    ("source", "field", "message"),
    [
        ({"path": "/var/run/kubevirt-private/x"}, "path", "uses reserved path prefix '/var/run/kubevirt'"),
        ({"path": "/var/run/libvirt"}, "path", "uses reserved path prefix '/var/run/libvirt'"),
        ({"path": "secrets"}, "path", "path must be absolute (start with '/')"),
        ({"path": "/var/../run"}, "path", "path must not contain '..'"),
        ({"path": "/"}, "path", "name a directory below '/'"),
        ({"path": "/" + "a" * 4096}, "path", "has more than 4096 characters"),
        (TOKEN | {"readOnly": False}, "readOnly", "readOnly must be true, write access is not supported"),
    ],
)
def test_a_path_that_is_none_is_told(source: dict[str, Any], field: str, message: str) -> None:
    ((found, said),) = causes(source)
    assert found == f"{AT}.containerPath.{field}"
    assert message in said
