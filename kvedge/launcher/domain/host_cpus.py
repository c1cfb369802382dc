"""The CPUs that the node has given to the launcher's Pod, as they are arranged in the node.

Filled by the reader of the launcher; read by the plan of pins. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class HostCell(Struct, frozen=True):
    """A NUMA cell: its cores, each with those of its threads that the Pod has, and how far other cells are."""

    number: int
    cores: tuple[tuple[int, ...], ...]
    distances: Mapping[int, int] = field(default_factory=dict)


class HostCpus(Struct, frozen=True):
    """Cells in their order; `online` is how many CPUs the whole node has."""

    cells: tuple[HostCell, ...] = ()
    online: int = 0

    @property
    def count(self) -> int:
        """How many CPUs the Pod has."""
        return sum(len(core) for cell in self.cells for core in cell.cores)
