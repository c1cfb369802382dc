"""`<controller>`: USB, SCSI, virtio-serial, and PCIe ports with room for hotplug.

Touches nothing.
"""

from __future__ import annotations

import itertools
from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.disk_targets import bus_of
from kvedge.launcher.domain.elements.display_xml import has_keyboard, inputs_of
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import wants_spice

# PCIe ports for disks and NICs that come later, as a port itself cannot be hotplugged: at least so many stay free, and
# more while a guest has few devices. KubeVirt's rule, with one port more for the smallest.
FREE_ROOT_PORTS: Final = 4
ROOT_PORTS: Final = 8
# Of guests above so many bytes, which can spare the memory.
LARGE_GUEST: Final = 2 << 30
FREE_ROOT_PORTS_OF_LARGE: Final = 6
ROOT_PORTS_OF_LARGE: Final = 16
# What sits on conventional PCI, and the balloon that is none. libvirt makes the bridge for the former, and its port, by
# itself; the other old NICs it puts on ports.
_WITHOUT_PORT: Final = frozenset({"virtio-transitional", "e1000", "rtl8139", "none"})
_PORT_CONTROLLERS: Final = frozenset({"scsi", "virtio-serial", "usb"})
# One for a console, which no guest has, and one for its agent. QEMU makes queues for every port, 64 of them for its
# usual 31, and its loop looks at all of them whenever a disk has something to do: small requests of an emulated guest
# cost it a tenth to a fifth more CPU.
SERIAL_PORTS: Final = 2
# As many as the controller can have.
USB_PORTS: Final = 15
_PCIE_TAGS: Final = frozenset({"filesystem", "interface", "memballoon", "memory", "rng", "vsock"})


def add_controllers(
    devices: Element, vmi: VirtualMachineInstance, platform: Platform, *, passes_usb: bool = False
) -> None:
    """The controllers that the devices need, and the SCSI one that hotplug needs, unless hotplug is refused."""
    spec = vmi.spec.domain.devices
    buses = {bus_of(disk, vmi) for disk in spec.disks}
    usb = passes_usb or "usb" in buses or has_keyboard(spec, platform)
    usb = usb or wants_spice(vmi) or any(entry.bus in {"", "usb"} for entry in inputs_of(spec, platform))
    slots = spec.client_passthrough is not None
    model = "qemu-xhci" if usb or slots else "none"
    # Beyond its usual four libvirt would add a hub, behind which devices are slow.
    add(devices, "controller", type="usb", index=0, model=model, ports=USB_PORTS if slots else None)
    if "scsi" in buses or not spec.disable_hotplug:
        _add_driver(add(devices, "controller", type="scsi", index=0, model=platform.virtio), platform)
    ports = SERIAL_PORTS + (spec.downward_metrics is not None) + wants_spice(vmi)
    serial = add(devices, "controller", type="virtio-serial", index=0, model=platform.virtio, ports=ports)
    _add_driver(serial, platform)


def _add_driver(controller: Element, platform: Platform) -> None:
    if platform.iommu:
        add(controller, "driver", iommu=platform.iommu)


def add_root_ports(devices: Element, platform: Platform, memory: int, *, hotplug: bool, placed: int = 0) -> None:
    """One port for each PCIe device that is there, and the free ones: libvirt alone would make no free one.

    Called last: it counts what the others have written; `memory` is the guest's, in bytes, and `placed` are devices
    that have been given a port each.
    """
    if not platform.pcie or not hotplug:
        return
    bridges = _buses_with_slots(devices)
    # A bridge sits on a port itself.
    needed = sum(1 for element in devices if _needs_port(element, platform)) + len(bridges) + placed
    # Index 0 is the root complex itself; ports start at 1 and libvirt gives them out from the lowest.
    free_numbers = (index for index in itertools.count(1) if index not in bridges)
    ports = itertools.islice(free_numbers, needed + free_root_ports(needed, memory))
    models = {0: "pcie-root"} | dict.fromkeys(ports, "pcie-root-port") | dict.fromkeys(bridges, "pcie-to-pci-bridge")
    for index, model in sorted(models.items()):
        add(devices, "controller", type="pci", index=index, model=model)


def free_root_ports(in_use: int, memory: int) -> int:
    """How many ports stay free beside those in use, for a guest of so many bytes."""
    if memory > LARGE_GUEST:
        return max(ROOT_PORTS_OF_LARGE - in_use, FREE_ROOT_PORTS_OF_LARGE)
    return max(ROOT_PORTS - in_use, FREE_ROOT_PORTS)


def _buses_with_slots(devices: Element) -> frozenset[int]:
    """The buses on which a VMI places devices at slots that a PCIe port does not have: it has slot 0 alone."""
    placed = [
        (int(address.get("bus", "0"), 16), int(address.get("slot", "0"), 16))
        for address in devices.iterfind("*/address[@type='pci']")
    ]
    return frozenset(bus for bus, slot in placed if bus > 0 and slot > 0)


def _needs_port(element: Element, platform: Platform) -> bool:
    if element.find("address[@type='pci']") is not None:
        return False
    if element.tag == "input":
        return element.get("bus") == "virtio"
    if element.tag == "video":
        # On amd64 the first screen has its place on the root complex.
        return platform.architecture == "aarch64"
    if element.tag == "hostdev":
        return element.get("type") != "usb"
    model = _model_of(element)
    if element.tag == "disk":
        return model == "virtio-non-transitional"
    if element.tag == "controller":
        return element.get("type") in _PORT_CONTROLLERS and model not in _WITHOUT_PORT
    return element.tag in _PCIE_TAGS and model not in _WITHOUT_PORT


def _model_of(element: Element) -> str:
    nested = element.find("model")
    return element.get("model", "") if nested is None else nested.get("type", "")
