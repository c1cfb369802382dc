"""Which VM has which device, and what two cannot have at one time."""

from __future__ import annotations

import pytest

from kvedge.handler.devices.device_facts import NodeDevices, PciFunction, UsbDevice
from kvedge.handler.devices.device_users import DeviceUsers, held_devices, parse_environment
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with

A, B = "0000:65:00.0", "0000:65:00.1"
SEEN = NodeDevices(
    pci=tuple(PciFunction(address=each, vendor="10de", product="1", group="14") for each in (A, B)),
    usb=(UsbDevice(port="1-2", vendor="46f4", product="0001", bus=1, number=7),),
)
TEXT = f"PATH=/bin\0PCI_RESOURCE_N_GPU={A}\0PCI_RESOURCE_N_AUDIO={B}\0USB_RESOURCE_N_STICK=1:7\0broken\0"
ENVIRONMENT = parse_environment(TEXT)


def guest(name: str, *resources: str) -> VirtualMachineInstance:
    devices = [{"name": f"d{number}", "deviceName": each} for number, each in enumerate(resources)]
    made = vmi_with({"domain": {"devices": {"hostDevices": devices}}}, name=name, namespace="shop")
    made.metadata.uid = f"uid-{name}"
    made.status.phase = "Scheduled"
    return made


def test_a_guest_has_what_its_pod_says_of_the_resources_that_it_names() -> None:
    held = held_devices(guest("a", "n/gpu", "n/stick", "n/none"), ENVIRONMENT, SEEN)
    assert held.members == {A, "1-2"}
    assert held.groups == {"14"}
    assert held.vmi == "shop/a"


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        pytest.param("n/gpu", f"device {A} of this node is that of VMI shop/first", id="the same device"),
        pytest.param("n/audio", "IOMMU group 14 of this node is that of VMI shop/first", id="its group"),
        pytest.param("n/stick", "", id="another device"),
    ],
)
def test_a_device_and_its_group_are_one_guests(resource: str, words: str) -> None:
    first, second = guest("first", "n/gpu"), guest("second", resource)
    users = DeviceUsers(lambda: [first, second])
    assert users.claim(first, ENVIRONMENT, SEEN) == ""
    assert users.claim(second, ENVIRONMENT, SEEN).startswith(words)
    assert bool(users.claim(second, ENVIRONMENT, SEEN)) is bool(words)


def test_a_device_is_free_when_its_guest_has_ended_or_gone() -> None:
    first, second, third = (guest(name, "n/gpu") for name in ("first", "second", "third"))
    living = [first, second, third]
    users = DeviceUsers(lambda: living)
    assert users.claim(first, ENVIRONMENT, SEEN) == ""
    first.status.phase = "Succeeded"
    assert users.claim(second, ENVIRONMENT, SEEN) == ""
    living.remove(second)
    assert users.claim(third, ENVIRONMENT, SEEN) == ""
    assert users.holders() == {A: "shop/third"}


def test_what_a_launchers_processes_show_later_changes_nothing() -> None:
    first, second = guest("first", "n/stick"), guest("second", "n/gpu")
    users = DeviceUsers(lambda: [first, second])
    users.claim(first, ENVIRONMENT, SEEN)
    users.claim(first, {"USB_RESOURCE_N_STICK": A}, SEEN)
    assert users.holders() == {"1-2": "shop/first"}


def test_of_a_very_long_variable_so_much_is_read() -> None:
    environment = {"PCI_RESOURCE_N_GPU": ",".join(f"{n:04x}:00:00.0" for n in range(5000))}
    assert len(held_devices(guest("a", "n/gpu"), environment, SEEN).members) <= 256
