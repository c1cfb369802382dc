"""`<memory>`, `<currentMemory>` and `<memoryBacking>`: how much RAM the guest sees, and of what pages; and the device
by which it gets more while it runs.

That device is there from the start, and gives nothing yet: so its place among the PCI ports is the same in each run,
and no other device ever has it. Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus, is_realtime, mirrors_numa
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.values.memory_blocks import MEMORY_BLOCK
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_bytes
from kvedge.resources.vmi_facts import guest_memory_field, most_memory_bytes

_MIB: Final = 1024 * 1024
_KIB: Final = 1024


def guest_memory(spec: DomainSpec) -> int:
    """Bytes of RAM that the guest sees: `memory.guest`, else the request, else the limit, else one huge page.

    Rounded up to whole MiB, as QEMU does it anyway: so what is written is what runs.

    Raises:
        ConversionError: when nothing says how much.
    """
    field, size = _read_wanted(spec)
    if size <= 0:
        raise ConversionError(field, "no memory for the guest", "set spec.domain.memory.guest, such as 512Mi")
    return -(-size // _MIB) * _MIB


def memory_room(spec: DomainSpec, architecture: str) -> int:
    """Bytes that the guest may get beside those that it starts with; 0 when it gets none."""
    return max(0, most_memory_bytes(spec, architecture) - guest_memory(spec))


def add_memory(domain: Element, spec: DomainSpec, architecture: str) -> None:
    """The memory elements; huge pages come from memfd, which needs no mounted hugetlbfs in the Pod.

    Raises:
        ConversionError: when the size cannot be made of the pages asked for.
    """
    size = guest_memory(spec)
    page = page_size(spec)
    if page and size % page:
        raise ConversionError(
            "spec.domain.memory.hugepages.pageSize",
            f"the guest's memory of {size} bytes is no multiple of the page size",
            "make spec.domain.memory.guest a multiple of it",
        )
    room = memory_room(spec, architecture)
    if room:
        # libvirt wants to hear of slots for memory, of which a virtio device takes none.
        add(domain, "maxMemory", (size + room) // _KIB, slots=1, unit="KiB")
    add(domain, "memory", (size + room) // _KIB, unit="KiB")
    add(domain, "currentMemory", size // _KIB, unit="KiB")
    shares = bool(spec.devices.filesystems)
    if not page and not shares and not is_realtime(spec):
        return
    backing = add(domain, "memoryBacking")
    if page:
        add(add(backing, "hugepages"), "page", size=page // _KIB, unit="KiB")
    if is_realtime(spec):
        # A page that is shared, or not there, would be waited for.
        add(backing, "nosharepages")
        add(backing, "locked")
    if page or shares:
        add(backing, "source", type="memfd")
    if shares:
        # What serves a directory reads and writes the guest's buffers itself.
        add(backing, "access", mode="shared")
    if mirrors_numa(spec) or (shares and _is_limited(spec)):
        # The guest's cells have their memory when it starts, or it does not start.
        add(backing, "allocation", mode="immediate")


def _is_limited(spec: DomainSpec) -> bool:
    """Whether the Pod's containers may not have more memory than they were given.

    Whoever touches a page of shared memory first has it counted as its own, and what serves a directory writes where
    the guest reads: QEMU takes all of the pages before, in its container, which has room for them.
    """
    return "memory" in spec.resources.limits or has_dedicated_cpus(spec)


def add_memory_cell(cpu: Element, spec: DomainSpec, architecture: str, vcpus: int) -> None:
    """The guest's one NUMA cell, without which libvirt plugs no memory in."""
    if memory_room(spec, architecture):
        size = guest_memory(spec) // _KIB
        add(add(cpu, "numa"), "cell", id=0, cpus=f"0-{vcpus - 1}", memory=size, unit="KiB")


def add_memory_device(devices: Element, spec: DomainSpec, architecture: str) -> None:
    """What gives the guest more memory, or takes it back: of all of its room, nothing at the start."""
    room = memory_room(spec, architecture)
    if not room:
        return
    target = add(add(devices, "memory", model="virtio-mem"), "target")
    add(target, "size", room // _KIB, unit="KiB")
    add(target, "node", 0)
    add(target, "block", MEMORY_BLOCK // _KIB, unit="KiB")
    add(target, "requested", 0, unit="KiB")


def _read_wanted(spec: DomainSpec) -> tuple[str, int]:
    asked = guest_memory_field(spec)
    if asked is not None:
        field, amount = asked
        return field, _bytes(field, amount)
    return "spec.domain.memory", page_size(spec)


def page_size(spec: DomainSpec) -> int:
    """The size of the guest's huge pages; 0 when it has none.

    Raises:
        ConversionError: when the size is none.
    """
    if spec.memory is None or spec.memory.hugepages is None:
        return 0
    field = "spec.domain.memory.hugepages.pageSize"
    size = _bytes(field, spec.memory.hugepages.page_size)
    if size < _KIB:
        raise ConversionError(field, f"{size} bytes is no huge page", "use 2Mi or 1Gi")
    return size


def _bytes(field: str, value: Quantity) -> int:
    try:
        return parse_bytes(value)
    except QuantityError as error:
        raise ConversionError(field, str(error), "correct the quantity") from error
