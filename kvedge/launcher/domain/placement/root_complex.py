"""Devices on the PCI root complex itself, where no hotplug port is before them: for guests whose system wants that.

Called once all devices are there, for VMIs with KubeVirt's annotation. Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.names import PCI_ON_ROOT
from kvedge.resources.types.vmi import VirtualMachineInstance

# 0 is the host bridge, 1 the first screen, and 0x1f what a q35 board has beside PCI.
_FIRST_SLOT: Final = 0x02
_LAST_SLOT: Final = 0x1E
_ALWAYS: Final = frozenset({"filesystem", "interface", "rng", "sound", "vsock", "watchdog"})
_CONTROLLERS: Final = frozenset({"scsi", "virtio-serial", "usb"})


def is_on_root(vmi: VirtualMachineInstance) -> bool:
    """Whether the VMI asks for it."""
    return vmi.metadata.annotations.get(PCI_ON_ROOT) == "true"


def place_on_root(devices: Element, platform: Platform) -> None:
    """Give each PCI device a slot of bus 0, in the order of the document; what has an address keeps it.

    A machine without PCIe has all of them there anyway.

    Raises:
        ConversionError: when there are more devices than slots.
    """
    if not platform.pcie:
        return
    taken = {
        int(address.get("slot", "0"), 16) for address in devices.iterfind("*/address[@type='pci']") if _is_root(address)
    }
    free = (slot for slot in range(_FIRST_SLOT, _LAST_SLOT + 1) if slot not in taken)
    for element in devices:
        if not _is_pci(element, platform) or element.find("address[@type='pci']") is not None:
            continue
        slot = next(free, None)
        if slot is None:
            raise ConversionError(
                f"metadata.annotations[{PCI_ON_ROOT}]",
                f"the PCI root complex has {_LAST_SLOT - _FIRST_SLOT + 1} slots for devices, and the guest has more",
                "take some away, or the annotation",
            )
        add(element, "address", type="pci", domain="0x0000", bus="0x00", slot=f"{slot:#04x}", function="0x0")


def _is_root(address: Element) -> bool:
    return int(address.get("bus", "0"), 16) == 0 and int(address.get("domain", "0"), 16) == 0


def _is_pci(element: Element, platform: Platform) -> bool:
    if element.tag in _ALWAYS:
        return True
    if element.tag == "disk":
        target = element.find("target")
        return target is not None and target.get("bus") == "virtio"
    if element.tag == "controller":
        return element.get("type") in _CONTROLLERS and element.get("model") != "none"
    if element.tag == "input":
        return element.get("bus") == "virtio"
    if element.tag == "hostdev":
        return element.get("type") != "usb"
    if element.tag == "memory":
        return element.get("model") == "virtio-mem"
    if element.tag == "video":
        # On amd64 libvirt puts the first screen there.
        return platform.architecture == "aarch64"
    return element.tag == "memballoon" and element.get("model") != "none"
