"""A node's devices, played: /sys and /dev below a directory, as the kernel shows PCI functions, mediated devices and
USB devices. What is plugged in or out here is so for whoever reads there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path


class PlayedDevices:
    """One node's. Its device nodes are plain files, unless `make_node` makes others."""

    def __init__(self, root: Path, make_node: Callable[[Path], None] = Path.touch) -> None:
        self.root = root
        self._make_node = make_node
        (root / "sys/bus").mkdir(parents=True)

    def add_pci(
        self, address: str, model: str, group: str = "", driver: str = "vfio-pci", device_class: str = "030000"
    ) -> None:
        """A function of a card; with VFIO's driver its group has a node."""
        vendor, product = model.split(":")
        facts = {"vendor": f"0x{vendor}", "device": f"0x{product}", "class": f"0x{device_class}"}
        device = self._make("pci", address, **facts)
        if driver:
            (device / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
        if group:
            (device / "iommu_group").symlink_to(f"../../../../kernel/iommu_groups/{group}")
        if group and driver == "vfio-pci":
            self._add_group(group)

    def add_mdev(self, uuid: str, type_name: str, group: str) -> None:
        """A part of a card."""
        device = self._make("mdev", uuid)
        (device / "mdev_type").mkdir()
        (device / "mdev_type/name").write_text(f"{type_name}\n")
        (device / "iommu_group").symlink_to(f"../../kernel/iommu_groups/{group}")
        self._add_group(group)

    def plug_usb(self, port: str, model: str, number: int, *, serial: str = "", device_class: str = "00") -> None:
        """A device into a port."""
        vendor, product = model.split(":")
        bus = port.partition("-")[0]
        facts = {"idVendor": vendor, "idProduct": product, "busnum": bus, "devnum": str(number)}
        facts |= {"bDeviceClass": device_class, "manufacturer": "Maker", "product": "Stick"}
        self._make("usb", port, **facts, **({"serial": serial} if serial else {}))
        self._make("usb", f"{port}:1.0")
        node = self._node(bus, number)
        node.parent.mkdir(parents=True, exist_ok=True)
        self._make_node(node)

    def unplug_usb(self, port: str) -> None:
        """It is pulled out."""
        device = self.root / "sys/bus/usb/devices" / port
        self._node(port.partition("-")[0], int((device / "devnum").read_text())).unlink()
        shutil.rmtree(device)
        shutil.rmtree(device.with_name(f"{port}:1.0"))

    def remove(self, kind: str, name: str) -> None:
        """It is gone."""
        shutil.rmtree(self.root / "sys/bus" / kind / "devices" / name)

    def _make(self, kind: str, name: str, **texts: str) -> Path:
        device = self.root / "sys/bus" / kind / "devices" / name
        device.mkdir(parents=True)
        for file, text in texts.items():
            (device / file).write_text(f"{text}\n")
        return device

    def _node(self, bus: str, number: int) -> Path:
        return self.root / f"dev/bus/usb/{int(bus):03}/{number:03}"

    def _add_group(self, group: str) -> None:
        folder = self.root / "dev/vfio"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("vfio", group):
            self._make_node(folder / name)
