"""Finds the devices of a node in sysfs, below a root directory.

Called by `node_devices`. Reads files only. A device that goes while it is looked at is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from kvedge.handler.devices.device_facts import MediatedDevice, NodeDevices, PciFunction, UsbDevice
from kvedge.resources.values.pci_addresses import is_pci_address

# What a device says of itself may be of any length.
_LONGEST: Final = 128
# Of each kind: far more than any node has.
_MOST: Final = 4096
_HUB: Final = "09"


def read_devices(root: Path) -> NodeDevices:
    """All that is there now, in order of their names."""
    sysfs = root / "sys/bus"
    return NodeDevices(
        pci=tuple(_pci(sysfs / "pci/devices", root)),
        mdev=tuple(_mdev(sysfs / "mdev/devices", root)),
        usb=tuple(_usb(sysfs / "usb/devices", root)),
    )


def _pci(folder: Path, root: Path) -> Iterator[PciFunction]:
    for name in _names(folder):
        path = folder / name
        vendor, product = _text(path / "vendor"), _text(path / "device")
        if not is_pci_address(name) or not vendor or not product:
            continue
        group = _name_of_link(path / "iommu_group")
        yield PciFunction(
            address=name,
            vendor=vendor.removeprefix("0x").lower(),
            product=product.removeprefix("0x").lower(),
            device_class=_text(path / "class").removeprefix("0x").lower(),
            driver=_name_of_link(path / "driver"),
            group=group,
            has_node=_has_vfio(root, group),
        )


def _mdev(folder: Path, root: Path) -> Iterator[MediatedDevice]:
    for name in _names(folder):
        path = folder / name
        group = _name_of_link(path / "iommu_group")
        # A type without a name of its own has the name of its folder.
        type_name = _text(path / "mdev_type/name") or _name_of_link(path / "mdev_type")
        if type_name:
            yield MediatedDevice(
                uuid=name, type_name=type_name.replace(" ", "_"), group=group, has_node=_has_vfio(root, group)
            )


def _usb(folder: Path, root: Path) -> Iterator[UsbDevice]:
    for name in _names(folder):
        # Others are interfaces of devices, which have a colon, and the buses themselves.
        if ":" in name or "-" not in name or _text(folder / name / "bDeviceClass") == _HUB:
            continue
        path = folder / name
        vendor, product = _text(path / "idVendor").lower(), _text(path / "idProduct").lower()
        bus, number = _text(path / "busnum"), _text(path / "devnum")
        if not (vendor and product and bus.isascii() and bus.isdecimal() and number.isascii() and number.isdecimal()):
            continue
        found = UsbDevice(
            port=name,
            vendor=vendor,
            product=product,
            bus=int(bus),
            number=int(number),
            serial=_text(path / "serial"),
            name=f"{_text(path / 'manufacturer')} {_text(path / 'product')}".strip(),
        )
        yield _with_node(found, root)


def _with_node(found: UsbDevice, root: Path) -> UsbDevice:
    return replace(found, has_node=(root / found.node.lstrip("/")).exists())


def _has_vfio(root: Path, group: str) -> bool:
    return bool(group) and all((root / "dev/vfio" / name).exists() for name in (group, "vfio"))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:_MOST]
    except OSError:
        # A kernel without this bus.
        return []


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_LONGEST).decode(errors="replace").strip()
    except OSError:
        return ""


def _name_of_link(path: Path) -> str:
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return ""
