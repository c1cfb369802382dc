"""CPU and memory that the KubeVirt object gives to containers which support VMs."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.configuration.configuration import Issue
from kvedge.resources.configuration.configuration_reading import Reading, read_configuration
from kvedge.resources.types.core import ResourceRequirements

AT = "spec.configuration.supportContainerResources"


def read(*entries: dict[str, Any]) -> Reading:
    return read_configuration({"configuration": {"supportContainerResources": [*entries]}})


def entry(kind: str = "vmexport", **resources: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "resources": resources}


def test_what_is_said_of_a_type_is_in_force() -> None:
    reading = read(
        entry(requests={"cpu": "100m", "memory": "0"}, limits={"cpu": 1, "ephemeral-storage": "1G"}),
        entry("hotplug-disk", limits={"memory": "80M"}),
        entry(limits={"cpu": "7"}),
    )
    assert reading.findings == ()
    assert reading.configuration.support == {
        "vmexport": ResourceRequirements(requests={"cpu": "100m"}, limits={"cpu": 1}),
        "hotplug-disk": ResourceRequirements(limits={"memory": "80M"}),
    }


def test_kubevirts_container_of_the_console_log_is_known() -> None:
    assert read(entry("guest-console-log", limits={"cpu": "1"})).findings == ()


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (entry("exporter"), f"{AT}[0].type"),
        (entry(limits={"cpu": "much"}), f"{AT}[0].resources.limits.cpu"),
        (entry(requests={"memory": "-1"}), f"{AT}[0].resources.requests.memory"),
    ],
    ids=["no type", "no quantity", "below zero"],
)
def test_what_cannot_be_used_is_found(given: dict[str, Any], path: str) -> None:
    reading = read(given)
    (finding,) = reading.of(Issue.INVALID)
    assert finding.path == path
    assert all(not parts.limits and not parts.requests for parts in reading.configuration.support.values())
