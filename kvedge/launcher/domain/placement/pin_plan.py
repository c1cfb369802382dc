"""Which CPU of the node each thread of a guest runs on, when the guest has CPUs for itself.

Used by the converter, and by the launcher to know which CPUs are left for itself. Pure. A vCPU has one CPU; the vCPUs
that are threads of one core of the guest have threads of one core of the node, as far as there are such. Cells are
filled in their order, so that a small guest stays in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.vcpu_xml import domain_topology
from kvedge.launcher.domain.host_cpus import HostCpus
from kvedge.resources.host_devices.cpu_placement import (
    dedicated_cpu_count,
    emulator_cpus,
    has_dedicated_cpus,
    isolates_emulator,
    mirrors_numa,
    pool_threads,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import Topology

_FIELD: Final = "spec.domain.cpu.dedicatedCpuPlacement"
_REMEDY: Final = "look at the CPU manager of the node's kubelet"


class PinPlan(Struct, frozen=True):
    """The node's CPU of each vCPU, and those of the emulator and of each IO thread by its number.

    Of a guest that shares CPUs it is empty.
    """

    vcpus: tuple[int, ...] = ()
    emulator: tuple[int, ...] = ()
    io_threads: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class _Free:
    """The CPUs that no thread has yet: by cell, by core."""

    def __init__(self, host: HostCpus) -> None:
        self._cells = [[list(core) for core in cell.cores] for cell in host.cells]

    def take_core(self, threads: int) -> list[int] | None:
        """Threads of one core of the node; else of one cell; None when no cell has so many."""
        for core in (core for cell in self._cells for core in cell):
            if len(core) >= threads:
                return _take(core, threads)
        for cell in self._cells:
            if sum(map(len, cell)) >= threads:
                return _take_of(cell, threads)
        return None

    def take(self, count: int) -> list[int]:
        """As many as there are, wherever they are, but at most `count`."""
        return _take_of([core for cell in self._cells for core in cell], count)


def _take(core: list[int], count: int) -> list[int]:
    taken, core[:] = core[:count], core[count:]
    return taken


def _take_of(cores: list[list[int]], count: int) -> list[int]:
    found: list[int] = []
    for core in cores:
        found += _take(core, min(len(core), count - len(found)))
    return found


def plan_pins(vmi: VirtualMachineInstance, context: DomainContext, io_threads: int) -> PinPlan:
    """The pins of a guest with so many IO threads.

    Raises:
        ConversionError: when the Pod does not have the CPUs, or shares them with others.
    """
    domain = vmi.spec.domain
    if not has_dedicated_cpus(domain):
        return PinPlan()
    _check(vmi, context.host_cpus)
    free = _Free(context.host_cpus)
    vcpus = _place_vcpus(domain_topology(domain), free, in_cells=mirrors_numa(domain))
    emulator = _take_all(free, emulator_cpus(vmi), "the emulator")
    if pooled := pool_threads(domain):
        own = _take_all(free, pooled, "the pool of IO threads")
        return PinPlan(vcpus, emulator, {number: (cpu,) for number, cpu in enumerate(own, start=1)})
    if isolates_emulator(domain):
        return PinPlan(vcpus, emulator, dict.fromkeys(range(1, io_threads + 1), emulator))
    return PinPlan(vcpus, emulator, _spread(vcpus, io_threads))


def _check(vmi: VirtualMachineInstance, host: HostCpus) -> None:
    """Where no CPU manager gives Pods CPUs alone, a Pod has all that the node has: others run on them, too."""
    if host.count > dedicated_cpu_count(vmi) and host.count >= host.online:
        text = f"the node gave the Pod no CPUs for itself: it has all {host.count}, as every other Pod"
        raise ConversionError(_FIELD, text, _REMEDY)


def _place_vcpus(topology: Topology, free: _Free, *, in_cells: bool) -> tuple[int, ...]:
    cores = topology.sockets * topology.cores
    placed: list[int] = []
    for number in range(cores):
        found = free.take_core(topology.threads)
        if found is None:
            found = free.take(topology.threads)
            if len(found) < topology.threads:
                text = f"not enough exclusive threads provided, could not fit {cores - number} core(s)"
                raise ConversionError(_FIELD, text, _REMEDY)
            if in_cells:
                text = f"could not fit {cores - number} core(s) without crossing numa cell boundaries for"
                raise ConversionError(_FIELD, f"{text} individual cores", "use threads: 1, or another node")
        placed += found
    return tuple(placed)


def _take_all(free: _Free, count: int, what: str) -> tuple[int, ...]:
    found = free.take(count)
    if len(found) < count:
        text = f"not enough exclusive threads provided, could not fit {what} on {count} CPU(s)"
        raise ConversionError(_FIELD, text, _REMEDY)
    return tuple(found)


def _spread(vcpus: Sequence[int], io_threads: int) -> dict[int, tuple[int, ...]]:
    """IO threads have the CPUs of vCPUs: sets that are as large as each other, or one CPU each in turn."""
    if io_threads >= len(vcpus):
        return {number: (vcpus[(number - 1) % len(vcpus)],) for number in range(1, io_threads + 1)}
    size, longer = divmod(len(vcpus), max(1, io_threads))
    found, begin = {}, 0
    for number in range(1, io_threads + 1):
        end = begin + size + (1 if number <= longer else 0)
        found[number] = tuple(vcpus[begin:end])
        begin = end
    return found
