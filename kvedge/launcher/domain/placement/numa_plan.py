"""The NUMA cells of a guest: those of the node that its vCPUs run in, and an even share of its memory in each.

Used by the converter. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.memory_xml import guest_memory, page_size
from kvedge.launcher.domain.placement.pin_plan import PinPlan
from kvedge.resources.host_devices.cpu_placement import mirrors_numa
from kvedge.resources.types.domain import DomainSpec

# ACPI's for a cell and itself, and for cells of which nothing is known.
_NEAR: Final = 10
_FAR: Final = 20


class GuestCell(Struct, frozen=True):
    """A cell of the guest: the node's cell that it is in, its vCPUs, its bytes, and how far the guest's cells are."""

    host_cell: int
    vcpus: tuple[int, ...]
    memory: int
    distances: Mapping[int, int]


def plan_numa(spec: DomainSpec, context: DomainContext, pins: PinPlan) -> tuple[GuestCell, ...]:
    """The cells, in the order of the node's; none for a guest that has not asked for them.

    Raises:
        ConversionError: when the memory cannot be shared out.
    """
    if not mirrors_numa(spec):
        return ()
    host = context.host_cpus
    cell_of = {cpu: cell.number for cell in host.cells for core in cell.cores for cpu in core}
    vcpus: dict[int, list[int]] = {}
    for number, cpu in enumerate(pins.vcpus):
        vcpus.setdefault(cell_of[cpu], []).append(number)
    if not vcpus:
        text = "the guest has no CPUs for itself, of which its NUMA cells are made"
        raise ConversionError("spec.domain.cpu.dedicatedCpuPlacement", text, "set it to true")
    used = sorted(vcpus)
    shares = _share_out(spec, len(used))
    known = {cell.number: cell.distances for cell in host.cells}
    return tuple(
        GuestCell(
            host_cell=number,
            vcpus=tuple(vcpus[number]),
            memory=share,
            distances={
                index: known[number].get(other, _NEAR if other == number else _FAR) for index, other in enumerate(used)
            },
        )
        for number, share in zip(used, shares, strict=True)
    )


def _share_out(spec: DomainSpec, cells: int) -> list[int]:
    """Whole pages; the first cells have those that are left over."""
    memory, page = guest_memory(spec), page_size(spec)
    if not page:
        text = "the guest has no huge pages, of which its NUMA cells are made"
        raise ConversionError("spec.domain.memory.hugepages", text, "set pageSize, such as 2Mi")
    pages, rest = divmod(memory, page)
    if rest:
        text = f"requested memory can't be divided through the numa page size: {page}"
        raise ConversionError("spec.domain.memory.guest", text, "make it a multiple of the page size")
    if pages < cells:
        text = "not enough memory requested to allocate at least one hugepage per numa node"
        raise ConversionError("spec.domain.memory.guest", text, f"ask for {cells * page} bytes or more")
    each, more = divmod(pages, cells)
    return [(each + (1 if number < more else 0)) * page for number in range(cells)]
