"""`<numatune>`, and the cells in `<cpu>`: each cell of the guest has its memory in one cell of the node.

Called by the converter. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.placement.numa_plan import GuestCell
from kvedge.launcher.domain.xml_tree import add
from kvedge.runtime.linux.cpu_lists import cpu_list_text


def add_numatune(domain: Element, cells: Sequence[GuestCell]) -> None:
    """Memory that is not there is an error: it never comes from another cell."""
    if not cells:
        return
    element = add(domain, "numatune")
    add(element, "memory", mode="strict", nodeset=cpu_list_text(cell.host_cell for cell in cells))
    for number, cell in enumerate(cells):
        add(element, "memnode", cellid=number, mode="strict", nodeset=cell.host_cell)


def add_cells(cpu: Element, cells: Sequence[GuestCell]) -> None:
    """What the guest sees of them."""
    if not cells:
        return
    element = add(cpu, "numa")
    for number, cell in enumerate(cells):
        made = add(element, "cell", id=number, cpus=cpu_list_text(cell.vcpus), memory=cell.memory >> 10, unit="KiB")
        distances = add(made, "distances")
        for other, value in cell.distances.items():
            add(distances, "sibling", id=other, value=value)
