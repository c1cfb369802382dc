# Tests: kvedge/api/admission/rules/storage/volume_rules.py
"""Files of the host as disks: only with the gate, and only one plain file in a directory."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.configuration.configuration import DEFAULTS, Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from tests.support.builders import put, small_vmi
from tests.support.reviews import request

ALLOWED = Configuration(gates=FeatureGates(enabled=frozenset({"HostDisk"})))
AT = "spec.volumes[1].hostDisk"


def causes(disk: dict[str, Any], configuration: Configuration = ALLOWED) -> list[tuple[str, str]]:
    vmi = small_vmi()
    put(vmi, "spec.domain.devices.disks[1]", {"name": "host", "disk": {"bus": "sata"}})
    put(vmi, "spec.volumes[1]", {"name": "host", "hostDisk": disk})
    verdict = plan_verdict(request(vmi), Cluster("amd64", configuration))
    return [(str(cause.field), cause.message) for cause in verdict.causes]


def test_a_file_that_is_there_and_one_that_is_made_enter() -> None:
    assert causes({"path": "/srv/vms/web.img", "type": "Disk"}) == []
    assert causes({"path": "/srv/vms/web.img", "type": "DiskOrCreate", "capacity": "1Gi", "shared": True}) == []


def test_nothing_of_the_host_enters_without_the_gate() -> None:
    found = causes({"path": "/srv/vms/web.img", "type": "Disk"}, DEFAULTS)
    assert found == [("spec.volumes[1]", "HostDisk feature gate is not enabled")]


@pytest.mark.parametrize(
    ("disk", "field", "words"),
    [
        ({"path": "", "type": "Disk"}, f"{AT}.path", "hostDisk.path is required for hostDisk volume"),
        ({"path": "web.img", "type": "Disk"}, f"{AT}.path", "must be the absolute path of a file"),
        ({"path": "/srv/../etc/shadow", "type": "Disk"}, f"{AT}.path", "without '..'"),
        ({"path": "/srv/vms/", "type": "Disk"}, f"{AT}.path", "must be the absolute path of a file"),
        ({"path": "/disk.img", "type": "Disk"}, f"{AT}.path", "of a file in a directory"),
        ({"path": "/srv/a.img", "type": "File"}, f"{AT}.type", "has invalid value 'File', allowed are 'Disk' or"),
        (
            {"path": "/srv/a.img", "type": "Disk", "capacity": "1Gi"},
            f"{AT}.capacity",
            "is allowed to pass only with spec.volumes[1].hostDisk.type equal to 'DiskOrCreate'",
        ),
        ({"path": "/srv/a.img", "type": "DiskOrCreate", "capacity": "-1"}, f"{AT}.capacity", "greater than 0"),
        ({"path": "/srv/a.img", "type": "DiskOrCreate", "capacity": "big"}, f"{AT}.capacity", "capacity: "),
    ],
    ids=["no path", "relative", "a way up", "a directory", "the host's root", "another type", "a size of what is there",
         "less than nothing", "no quantity"],
)  # fmt: skip
def test_what_is_wrong_with_it_is_named(disk: dict[str, Any], field: str, words: str) -> None:
    ((at, message),) = causes(disk)
    assert (at, words in message) == (field, True), message
