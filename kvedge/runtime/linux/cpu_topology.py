"""How this host's CPUs are arranged: which are there, which share a core, which are in which NUMA cell.

Used by launchers and by the agent of one box. Reads /sys; what a kernel or a container does not show is as if each CPU
were a core, all in one cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final, NamedTuple

from kvedge.runtime.linux.cpu_lists import CpuListError, parse_cpu_list

SYSTEM: Final = Path("/sys/devices/system")
# ACPI's for a cell and itself.
NEAR: Final = 10


class Cell(NamedTuple):
    """A NUMA cell, its CPUs, and how far each cell is."""

    number: int
    cpus: frozenset[int]
    distances: dict[int, int]


def find_online_cpus(system: Path = SYSTEM) -> frozenset[int]:
    """The CPUs that run; none where the kernel does not say."""
    return _read_list(system / "cpu/online")


def find_cells(system: Path = SYSTEM) -> Iterator[Cell]:
    """The cells, in their order."""
    numbers = sorted(_read_list(system / "node/online"))
    for number in numbers:
        folder = system / f"node/node{number}"
        far = _read(folder / "distance").split()
        known = len(far) == len(numbers) and all(each.isdecimal() for each in far)
        distances = dict(zip(numbers, map(int, far), strict=True)) if known else {}
        yield Cell(number, _read_list(folder / "cpulist"), distances)


def group_by_core(cpus: Set[int], system: Path = SYSTEM) -> tuple[tuple[int, ...], ...]:
    """Those of the CPUs that share a core, together; in the order of the cores' first CPUs."""
    cores: dict[int, list[int]] = {}
    for cpu in sorted(cpus):
        siblings = _read_list(system / f"cpu/cpu{cpu}/topology/thread_siblings_list") or {cpu}
        cores.setdefault(min(siblings), []).append(cpu)
    return tuple(tuple(core) for _, core in sorted(cores.items()))


def _read_list(path: Path) -> frozenset[int]:
    try:
        return parse_cpu_list(_read(path))
    except CpuListError:
        return frozenset()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
