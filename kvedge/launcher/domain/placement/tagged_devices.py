"""GPUs and other host devices that have a tag: where each sits in the guest, so that the guest can be told.

Used by the converter, and by the launcher for cloud-init's config drive, which is written before libvirt knows the
domain: such a device gets its place here instead of from libvirt. Pure. A PCIe port has one bus, and firmware numbers
them in the order of the ports: the lowest ones keep their number whatever sits on the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kvedge.launcher.domain.context import DomainContext, PassedDevice
from kvedge.launcher.domain.platform import Platform
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.pci_addresses import pci_parts

# Of the four that libvirt's USB controller has: the others are for a tablet, and for a hub with whatever else comes.
# Where more devices of the node come, libvirt places all of them.
_USB_PORTS: Final = 2


class TaggedDevice(Struct, frozen=True):
    """A device of the node, its tag, and its place in the guest: a PCI address, or `bus:port` of USB.

    The place is empty where libvirt chooses one.
    """

    device: PassedDevice
    tag: str
    place: str


def place_tagged(vmi: VirtualMachineInstance, context: DomainContext, platform: Platform) -> tuple[TaggedDevice, ...]:
    """All of them, GPUs first, in the VMI's order."""
    # Of a machine without PCIe, slots of the one bus are libvirt's to give.
    buses = iter(_find_free_buses(vmi)) if platform.pcie else iter(())
    on_usb = sum(device.kind == "usb" for passed in context.host_devices.values() for device in passed)
    ports = iter(range(1, _USB_PORTS + 1) if on_usb <= _USB_PORTS else ())
    return tuple(
        TaggedDevice(device, tag, _place(device, buses, ports))
        for key, tag in _find_tags(vmi)
        for device in context.host_devices.get(key, ())
    )


def _find_tags(vmi: VirtualMachineInstance) -> Iterator[tuple[str, str]]:
    """The tags, each with its entry's key in the context."""
    devices = vmi.spec.domain.devices
    for gpu in devices.gpus:
        if gpu.tag:
            yield f"gpus/{gpu.name}", gpu.tag
    for device in devices.host_devices:
        if device.tag:
            yield f"hostDevices/{device.name}", device.tag


def _place(device: PassedDevice, buses: Iterator[int], ports: Iterator[int]) -> str:
    if device.kind == "usb":
        port = next(ports, None)
        return "" if port is None else f"0:{port}"
    bus = next(buses, None)
    return "" if bus is None else f"0000:{bus:02x}:00.0"


def _find_free_buses(vmi: VirtualMachineInstance) -> Iterator[int]:
    """The buses on which the VMI itself places nothing."""
    devices = vmi.spec.domain.devices
    addresses = [interface.pci_address for interface in devices.interfaces]
    addresses += [disk.disk.pci_address for disk in devices.disks if disk.disk is not None]
    used = {int(parts[1], 16) for address in addresses if (parts := pci_parts(address)) is not None}
    return (bus for bus in itertools.islice(itertools.count(1), 0xFF) if bus not in used)
