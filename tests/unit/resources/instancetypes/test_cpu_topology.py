"""vCPUs of an instance type, as sockets, cores and threads."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.instancetypes.cpu_topology import guest_topology, indivisible


def preference(topology: str | None, across: str | None = None, ratio: int | None = None, old: int = 0) -> Any:
    options = {"across": across, "ratio": ratio}
    return {
        "cpu": {"preferredCPUTopology": topology, "spreadOptions": options},
        "preferSpreadSocketToCoreRatio": old,
    }


CASES = {
    "no preference": (4, None, (4, 1, 1)),
    "sockets": (4, preference("sockets"), (4, 1, 1)),
    "any": (4, preference("any"), (4, 1, 1)),
    "cores": (4, preference("cores"), (1, 4, 1)),
    "threads": (2, preference("threads"), (1, 1, 2)),
    "an older word": (4, preference("preferCores"), (1, 4, 1)),
    "spread by default": (8, preference("spread"), (4, 2, 1)),
    "spread by an older ratio": (8, preference("preferSpread", old=4), (2, 4, 1)),
    "the newer ratio wins": (8, preference("spread", ratio=8, old=4), (1, 8, 1)),
    "spread over threads": (8, preference("spread", "CoresThreads"), (1, 4, 2)),
    "spread over all": (16, preference("spread", "SocketsCoresThreads", 4), (2, 4, 2)),
    "one vCPU is never spread": (1, preference("spread"), (1, 1, 1)),
}


@pytest.mark.parametrize(("vcpus", "given", "wanted"), CASES.values(), ids=CASES)
def test_each_topology(vcpus: int, given: Any, wanted: tuple[int, int, int]) -> None:
    assert vcpus == 1 or indivisible(vcpus, given) == ""
    found = guest_topology(vcpus, given)
    assert (found["sockets"], found["cores"], found["threads"]) == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            preference("spread"),
            "3 vCPUs provided by the instance type are not divisible by the Spec.PreferSpreadSocketToCoreRatio or"
            " Spec.CPU.PreferSpreadOptions.Ratio of 2 provided by the preference",
        ),
        (
            preference("spread", "CoresThreads"),
            "3 vCPUs provided by the instance type are not divisible by the number of threads per core 2",
        ),
        (
            preference("spread", "SocketsCoresThreads"),
            "3 vCPUs provided by the instance type are not divisible by the number of threads per core 2 and"
            " Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of 2",
        ),
    ],
    ids=["sockets and cores", "cores and threads", "all"],
)
def test_what_cannot_be_spread_is_told(given: Any, words: str) -> None:
    assert indivisible(3, given) == words


def test_a_ratio_of_nothing_divides_nothing() -> None:
    assert "are not divisible" in indivisible(4, preference("spread", ratio=0))
