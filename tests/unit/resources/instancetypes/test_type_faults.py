"""What no instance type and no preference may say, told with the field."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.instancetypes.type_faults import find_faults
from kvedge.resources.types.vm_types.instancetypes import VirtualMachineInstancetypeSpec
from kvedge.resources.types.vm_types.preferences import VirtualMachinePreferenceSpec


def type_faults(cpu: dict[str, Any] | None = None, **memory: Any) -> list[str]:
    document = {"cpu": cpu or {"guest": 1}, "memory": {"guest": "1Gi", **memory}}
    return [fault.at for fault in find_faults(decode(VirtualMachineInstancetypeSpec, document))]


def preference_faults(**cpu: Any) -> list[str]:
    return [fault.at for fault in find_faults(decode(VirtualMachinePreferenceSpec, {"cpu": cpu}))]


def test_what_people_write_is_fine() -> None:
    assert type_faults(overcommitPercent=50, maxGuest="2Gi") == []
    assert preference_faults(preferredCPUTopology="spread", spreadOptions={"ratio": 4}) == []
    assert preference_faults(preferredCPUTopology="preferCores") == []


@pytest.mark.parametrize(
    ("memory", "at"),
    [
        ({"overcommitPercent": 10**60}, "overcommitPercent"),
        ({"overcommitPercent": -1}, "overcommitPercent"),
        ({"overcommitPercent": 1, "hugepages": {"pageSize": "2Mi"}}, "overcommitPercent"),
        ({"guest": "0"}, "guest"),
        ({"guest": "much"}, "guest"),
        ({"maxGuest": "-1Gi"}, "maxGuest"),
    ],
)
def test_memory_that_there_cannot_be(memory: dict[str, Any], at: str) -> None:
    assert type_faults(**memory) == [f"spec.memory.{at}"]


@pytest.mark.parametrize("guest", [0, -1, 4097, 10**60])
def test_vcpus_that_there_cannot_be(guest: int) -> None:
    assert type_faults({"guest": guest}) == ["spec.cpu.guest"]


@pytest.mark.parametrize("topology", ["spread", "cores", None])
def test_a_ratio_of_nothing_is_none_whether_it_counts_or_not(topology: str | None) -> None:
    for ratio in (0, -2):
        cpu = {"preferredCPUTopology": topology, "spreadOptions": {"ratio": ratio}}
        assert preference_faults(**cpu) == ["spec.cpu.spreadOptions.ratio"]


def test_what_is_spread_is_spread_across_what_is_known() -> None:
    assert preference_faults(preferredCPUTopology="spread", spreadOptions={"across": "Racks", "ratio": 0}) == [
        "spec.cpu.spreadOptions.across"
    ]
    across = {"across": "CoresThreads", "ratio": 4}
    assert preference_faults(preferredCPUTopology="spread", spreadOptions=across) == ["spec.cpu.spreadOptions.ratio"]
    assert preference_faults(preferredCPUTopology="round") == ["spec.cpu.preferredCPUTopology"]
