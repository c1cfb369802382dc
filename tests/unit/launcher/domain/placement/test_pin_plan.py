"""Which CPU of the node each thread of a guest has."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.host_cpus import HostCell, HostCpus
from kvedge.launcher.domain.placement.pin_plan import PinPlan, plan_pins
from tests.unit.launcher.domain.vmis import context, vmi

ALONE = {"dedicatedCpuPlacement": True}
ISOLATED = {**ALONE, "isolateEmulatorThread": True}


def host(*cells: tuple[tuple[int, ...], ...], online: int = 64) -> HostCpus:
    return HostCpus(tuple(HostCell(number, cores) for number, cores in enumerate(cells)), online)


def plan(cpu: dict[str, Any], cpus: HostCpus, io_threads: int = 0, **domain: Any) -> PinPlan:
    return plan_pins(vmi({"cpu": cpu, **domain}), context(host_cpus=cpus), io_threads)


@pytest.mark.parametrize(
    ("cpu", "cpus", "vcpus", "emulator"),
    [
        ({"cores": 2}, host(), (), ()),
        ({"cores": 2, **ALONE}, host(((3,), (5,))), (3, 5), ()),
        ({"cores": 2, **ALONE}, host(((2, 6),)), (2, 6), ()),
        ({"cores": 1, "threads": 2, **ISOLATED}, host(((1,), (2, 6))), (2, 6), (1,)),
        ({"sockets": 2, "threads": 2, **ALONE}, host(((1, 5), (2, 6))), (1, 5, 2, 6), ()),
        ({"cores": 1, "threads": 2, **ALONE}, host(((1,),), ((2,), (3,))), (2, 3), ()),
        ({"cores": 1, "threads": 2, **ALONE}, host(((1,),), ((2,),)), (1, 2), ()),
        ({"cores": 2, **ISOLATED}, host(((1,),), ((2,), (3,))), (1, 2), (3,)),
    ],
    ids=[
        "CPUs that are shared have no pins",
        "one each",
        "the threads of a core one after the other",
        "threads of one core before all",
        "a core for each core",
        "threads of a cell where no core has them",
        "threads of two cells where no cell has them",
        "cells in their order, the emulator last",
    ],
)
def test_vcpus_have_cpus_of_their_own(
    cpu: dict[str, Any], cpus: HostCpus, vcpus: tuple[int, ...], emulator: tuple[int, ...]
) -> None:
    found = plan(cpu, cpus)
    assert (found.vcpus, found.emulator) == (vcpus, emulator)


@pytest.mark.parametrize(
    ("cpu", "cpus", "words"),
    [
        ({"cores": 3, **ALONE}, host(((1,), (2,))), "not enough exclusive threads provided, could not fit 1 core"),
        ({"cores": 2, **ISOLATED}, host(((1,), (2,))), "could not fit the emulator on 1 CPU"),
        ({"cores": 2, **ALONE}, host(((0,), (1,), (2,), (3,)), online=4), "gave the Pod no CPUs for itself"),
        (
            {"threads": 2, "numa": {"guestMappingPassthrough": {}}, **ALONE},
            host(((1,),), ((2,),)),
            "could not fit 1 core\\(s\\) without crossing numa cell boundaries",
        ),
    ],
    ids=["too few", "none for the emulator", "all that the node has", "a core in two cells"],
)
def test_what_does_not_fit_is_told(cpu: dict[str, Any], cpus: HostCpus, words: str) -> None:
    with pytest.raises(ConversionError, match=words):
        plan(cpu, cpus)


def test_a_guest_may_have_all_cpus_of_a_small_node() -> None:
    assert plan({"cores": 2, **ALONE}, host(((0,), (1,)), online=2)).vcpus == (0, 1)


@pytest.mark.parametrize(
    ("threads", "pins"),
    [
        (0, {}),
        (1, {1: (1, 2, 3)}),
        (2, {1: (1, 2), 2: (3,)}),
        (4, {1: (1,), 2: (2,), 3: (3,), 4: (1,)}),
    ],
)
def test_io_threads_are_spread_over_the_cpus_of_vcpus(threads: int, pins: dict[int, tuple[int, ...]]) -> None:
    assert plan({"cores": 3, **ALONE}, host(((1,), (2,), (3,))), threads).io_threads == pins


def test_io_threads_run_beside_an_isolated_emulator() -> None:
    found = plan({"cores": 1, **ISOLATED}, host(((1,), (2,))), 2)
    assert (found.emulator, found.io_threads) == ((2,), {1: (2,), 2: (2,)})


def test_io_threads_of_a_pool_have_cpus_of_their_own() -> None:
    pool = {"ioThreadsPolicy": "supplementalPool", "ioThreads": {"supplementalPoolThreadCount": 2}}
    found = plan({"cores": 1, **ISOLATED}, host(((1,), (2,), (3,), (4,))), 2, **pool)
    assert found == PinPlan((1,), (2,), {1: (3,), 2: (4,)})
