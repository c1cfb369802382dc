"""The devices of a node, as sysfs shows them."""

from __future__ import annotations

from pathlib import Path

from kvedge.handler.devices.device_facts import MediatedDevice, NodeDevices, PciFunction, UsbDevice
from kvedge.handler.devices.sysfs_reading import read_devices
from tests.support.played_devices import PlayedDevices

UUID = "6ad2a3c8-7d5f-4f3e-9b55-0f8f3a1b2c3d"


def test_each_kind_of_device_is_found_with_what_counts_of_it(tmp_path: Path) -> None:
    node = PlayedDevices(tmp_path / "node")
    node.add_pci("0000:65:00.0", "10DE:1eb8", "14")
    node.add_pci("0000:00:1f.3", "8086:a348", "15", driver="snd_hda_intel", device_class="040300")
    node.add_mdev(UUID, "GRID T4-1Q", "31")
    node.plug_usb("1-2.3", "46f4:0001", 7, serial="A1")
    found = read_devices(node.root)

    assert found.pci == (
        PciFunction(
            address="0000:00:1f.3",
            vendor="8086",
            product="a348",
            device_class="040300",
            driver="snd_hda_intel",
            group="15",
        ),
        PciFunction(
            address="0000:65:00.0",
            vendor="10de",
            product="1eb8",
            device_class="030000",
            driver="vfio-pci",
            group="14",
            has_node=True,
        ),
    )
    assert found.mdev == (MediatedDevice(uuid=UUID, type_name="GRID_T4-1Q", group="31", has_node=True),)
    (stick,) = found.usb
    assert stick == UsbDevice(
        port="1-2.3",
        vendor="46f4",
        product="0001",
        bus=1,
        number=7,
        serial="A1",
        name="Maker Stick",
        has_node=True,
    )
    assert (stick.address, stick.node) == ("1:7", "/dev/bus/usb/001/007")


def test_hubs_interfaces_and_what_says_nothing_of_itself_are_left_out(tmp_path: Path) -> None:
    node = PlayedDevices(tmp_path / "node")
    node.plug_usb("1-1", "1d6b:0002", 2, device_class="09")
    node.plug_usb("1-2", "46f4:0001", 3)
    (node.root / "sys/bus/usb/devices/1-2/devnum").write_text("none\n")
    (node.root / "sys/bus/usb/devices/usb1").mkdir()
    (node.root / "sys/bus/pci/devices/0000:01:00.0").mkdir(parents=True)

    assert read_devices(node.root) == NodeDevices()


def test_a_kernel_without_any_of_these_buses_has_none(tmp_path: Path) -> None:
    assert read_devices(tmp_path) == NodeDevices()


def test_texts_of_devices_are_cut(tmp_path: Path) -> None:
    node = PlayedDevices(tmp_path / "node")
    node.plug_usb("1-2", "46f4:0001", 3, serial="s" * 4000)

    assert len(read_devices(node.root).usb[0].serial) == 128
