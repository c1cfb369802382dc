"""How many CPUs of the node a VMI has for itself, and what goes with them."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.host_devices.cpu_placement import (
    dedicated_cpu_count,
    emulator_cpus,
    has_dedicated_cpus,
    is_realtime,
    isolates_emulator,
    mirrors_numa,
    realtime_vcpus,
)
from kvedge.resources.names import EVEN_PARITY
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.linux.cpu_lists import CpuListError
from tests.support.builders import vmi_with

ALONE = {"dedicatedCpuPlacement": True}
ISOLATED = {**ALONE, "isolateEmulatorThread": True}
POOL = {"ioThreadsPolicy": "supplementalPool", "ioThreads": {"supplementalPoolThreadCount": 3}}


def vmi(cpu: dict[str, Any], *, parity: bool = False, **domain: Any) -> VirtualMachineInstance:
    made = vmi_with({"domain": {"cpu": cpu, **domain}})
    if parity:
        made.metadata.annotations[EVEN_PARITY] = ""
    return made


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (vmi({"cores": 4}), 0),
        (vmi({"cores": 4, "isolateEmulatorThread": True}), 0),
        (vmi({"cores": 2, "threads": 2, **ALONE}), 4),
        (vmi(ALONE, resources={"requests": {"cpu": "3"}}), 3),
        (vmi({"cores": 4, **ISOLATED}), 5),
        (vmi({"cores": 4, **ISOLATED}, parity=True), 6),
        (vmi({"cores": 3, **ISOLATED}, parity=True), 4),
        (vmi({"cores": 4, **ALONE}, parity=True), 4),
        (vmi({"cores": 4, **ALONE}, **POOL), 7),
        (vmi({"cores": 4, **ISOLATED}, parity=True, **POOL), 8),
    ],
    ids=[
        "CPUs that are shared",
        "nothing to be isolated from",
        "one for each vCPU",
        "vCPUs by a request",
        "one for the emulator",
        "two, for an even number",
        "one, as the number is even",
        "no emulator, no parity",
        "one for each IO thread of a pool",
        "IO threads count for parity",
    ],
)
def test_cpus_are_counted(asked: VirtualMachineInstance, count: int) -> None:
    assert dedicated_cpu_count(asked) == count


def test_what_a_domain_asks_for_is_known() -> None:
    plain, all_of_it = vmi({}), vmi({**ISOLATED, "numa": {"guestMappingPassthrough": {}}, "realtime": {}})
    asks = (has_dedicated_cpus, isolates_emulator, mirrors_numa, is_realtime)
    assert not any(ask(plain.spec.domain) for ask in asks)
    assert all(ask(all_of_it.spec.domain) for ask in asks)
    assert not mirrors_numa(vmi({"numa": {}}).spec.domain)
    assert emulator_cpus(plain) == 0


def test_a_mask_says_which_vcpus_are_in_real_time() -> None:
    assert realtime_vcpus(vmi({"realtime": {}}).spec.domain, 3) == {0, 1, 2}
    assert realtime_vcpus(vmi({"realtime": {"mask": "0-3,^1"}}).spec.domain, 4) == {0, 2, 3}
    with pytest.raises(CpuListError):
        realtime_vcpus(vmi({"realtime": {"mask": "all"}}).spec.domain, 4)
