"""Where the tagged devices of a guest sit in it."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.launcher.domain.context import PassedDevice
from kvedge.launcher.domain.placement.tagged_devices import place_tagged
from kvedge.launcher.domain.platform import platform_of
from tests.unit.launcher.domain.vmis import context, vmi

CARD = PassedDevice(kind="pci", address="0000:65:00.0")
PART = PassedDevice(kind="mdev", address="6ad2a3c8-7d5f-4f3e-9b55-0f8f3a1b2c3d")


def stick(number: int) -> PassedDevice:
    return PassedDevice(kind="usb", address=f"1:{number}")


def places(devices: dict[str, Any], passed: dict[str, tuple[PassedDevice, ...]], **spec: Any) -> list[tuple[str, str]]:
    guest = vmi({"devices": devices, **spec})
    made = context(host_devices=passed)
    return [(each.tag, each.place) for each in place_tagged(guest, made, platform_of(guest, "x86_64"))]


DEVICES = {
    "gpus": [{"name": "g", "deviceName": "n.com/q", "tag": "screen"}],
    "hostDevices": [
        {"name": "untold", "deviceName": "n.com/t4"},
        {"name": "card", "deviceName": "n.com/t4", "tag": "training"},
    ],
}
PASSED = {"gpus/g": (PART,), "hostDevices/untold": (stick(9),), "hostDevices/card": (CARD,)}


def test_each_has_a_port_of_its_own_beside_those_that_the_vmi_has_taken() -> None:
    assert places(DEVICES, PASSED) == [("screen", "0000:01:00.0"), ("training", "0000:02:00.0")]
    taken = {
        "interfaces": [{"name": "n", "bridge": {}, "pciAddress": "0000:01:00.0"}],
        "disks": [{"name": "d", "disk": {"bus": "virtio", "pciAddress": "0000:03:1f.0"}}, {"name": "c", "cdrom": {}}],
    }
    assert places(DEVICES | taken, PASSED) == [("screen", "0000:02:00.0"), ("training", "0000:04:00.0")]


def test_on_a_machine_without_ports_libvirt_chooses() -> None:
    assert places(DEVICES, PASSED, machine={"type": "pc"}) == [("screen", ""), ("training", "")]


@pytest.mark.parametrize(("count", "found"), [(2, ["0:1", "0:2"]), (3, ["", "", ""])])
def test_two_usb_devices_have_the_first_ports_and_more_are_libvirts_to_place(count: int, found: list[str]) -> None:
    devices = {"hostDevices": [{"name": "s", "deviceName": "n.com/usb", "tag": "key"}]}
    passed = {"hostDevices/s": tuple(stick(number) for number in range(count))}
    assert places(devices, passed) == [("key", place) for place in found]
