# Tests: kvedge/api/admission/rules/storage/volume_rules.py, kvedge/api/admission/rules/device_rules.py
"""Metrics of the host for guests: only with the gate, one disk at most, and that on virtio."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration import DEFAULTS, Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from tests.support.builders import put, small_vmi
from tests.support.reviews import request

ALLOWED = Configuration(gates=FeatureGates(enabled=frozenset({"DownwardMetrics"})))
AT = "spec.domain.devices.disks[1].disk"


def vmi_with_disk(**disk: Any) -> JsonObject:
    vmi = small_vmi()
    put(vmi, "spec.domain.devices.disks[1]", {"name": "metrics", **disk})
    put(vmi, "spec.volumes[1]", {"name": "metrics", "downwardMetrics": {}})
    return vmi


def causes(vmi: JsonObject, configuration: Configuration = ALLOWED) -> list[tuple[str, str]]:
    verdict = plan_verdict(request(vmi), Cluster("amd64", configuration))
    return [(str(cause.field), cause.message) for cause in verdict.causes]


@pytest.mark.parametrize("disk", [{"disk": {"bus": "virtio"}}, {"disk": {}}, {}], ids=["virtio", "no bus", "no target"])
def test_a_disk_enters(disk: dict[str, Any]) -> None:
    assert causes(vmi_with_disk(**disk)) == []


def test_a_port_enters() -> None:
    assert causes(small_vmi(domain__devices__downwardMetrics={})) == []


def test_neither_enters_without_the_gate() -> None:
    assert causes(vmi_with_disk(disk={"bus": "virtio"}), DEFAULTS) == [
        ("spec.volumes[1]", "downwardMetrics disks are not allowed: DownwardMetrics feature gate is not enabled.")
    ]
    assert causes(small_vmi(domain__devices__downwardMetrics={}), DEFAULTS) == [
        (
            "spec.domain.devices.downwardMetrics",
            "downwardMetrics virtio serial is not allowed: DownwardMetrics feature gate is not enabled",
        )
    ]


@pytest.mark.parametrize(
    ("disk", "field", "message"),
    [
        (
            {"cdrom": {"bus": "sata"}},
            AT,
            f"DownwardMetrics volume must be mapped to a disk, but disk is not set on {AT}.",
        ),
        (
            {"disk": {"bus": "sata"}},
            f"{AT}.bus",
            f"DownwardMetrics volume must be mapped to virtio bus, but {AT}.bus is set to sata",
        ),
    ],
    ids=["a CD-ROM", "another bus"],
)
def test_what_is_no_disk_on_virtio_is_refused(disk: dict[str, Any], field: str, message: str) -> None:
    assert causes(vmi_with_disk(**disk)) == [(field, message)]


def test_there_is_one_at_most() -> None:
    vmi = vmi_with_disk(disk={"bus": "virtio"})
    put(vmi, "spec.domain.devices.disks[2]", {"name": "more", "disk": {"bus": "virtio"}})
    put(vmi, "spec.volumes[2]", {"name": "more", "downwardMetrics": {}})
    assert causes(vmi) == [("spec.volumes", "spec.volumes must have max one downwardMetric volume set")]
