"""Which of its Pod's devices each entry of a VMI gets."""

from __future__ import annotations

import pytest

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.passthrough.host_device_plan import WantedDevice, pair_devices, wanted_devices
from tests.support.builders import vmi_with

A, B = "0000:65:00.0", "0000:66:00.0"


def wanted(*names: str, resource: str = "n/x") -> list[WantedDevice]:
    return [WantedDevice(name, f"devices[{number}]", resource) for number, name in enumerate(names)]


def pairs(entries: list[WantedDevice], given: dict[str, str]) -> dict[str, list[str]]:
    return {key: [each.address for each in found] for key, found in pair_devices(entries, given).items()}


def test_entries_are_known_by_their_list_and_name() -> None:
    devices = {"gpus": [{"name": "a", "deviceName": "n/g"}], "hostDevices": [{"name": "a", "deviceName": "n/h"}]}
    assert wanted_devices(vmi_with({"domain": {"devices": devices}})) == [
        WantedDevice("gpus/a", "spec.domain.devices.gpus[0].deviceName", "n/g"),
        WantedDevice("hostDevices/a", "spec.domain.devices.hostDevices[0].deviceName", "n/h"),
    ]


def test_devices_are_given_in_order_and_each_once() -> None:
    assert pairs(wanted("a", "b"), {"PCI_RESOURCE_N_X": f"{A}, {B},"}) == {"a": [A], "b": [B]}
    # Plugins of others tell all of a group, of which an entry is one.
    assert pairs(wanted("a"), {"PCI_RESOURCE_N_X": f"{A},{B}"}) == {"a": [A]}


def test_a_device_that_two_resources_have_goes_to_one_entry() -> None:
    entries = [*wanted("a"), *wanted("b", resource="n/y")]
    assert pairs(entries, {"PCI_RESOURCE_N_X": A, "PCI_RESOURCE_N_Y": f"{A},{B}"}) == {"a": [A], "b": [B]}


def test_usb_devices_that_go_together_go_to_one_entry() -> None:
    assert pairs(wanted("a"), {"USB_RESOURCE_N_X": "1:2,1:3"}) == {"a": ["1:2", "1:3"]}
    assert pairs(wanted("a", "b"), {"USB_RESOURCE_N_X": "1:2,1:3,1:4,1:5"}) == {
        "a": ["1:2", "1:3"],
        "b": ["1:4", "1:5"],
    }
    assert pairs(wanted("a", "b"), {"USB_RESOURCE_N_X": "1:2,1:3,1:4"}) == {"a": ["1:2"], "b": ["1:3"]}


@pytest.mark.parametrize("given", [{}, {"PCI_RESOURCE_N_X": ""}, {"PCI_RESOURCE_N_X": f"{A},{A}"}])
def test_too_few_devices_are_told_by_field_and_resource(given: dict[str, str]) -> None:
    with pytest.raises(BadRequest, match=r"devices\[\d\]: the Pod has too few devices of n/x for it: \d for 2"):
        pair_devices(wanted("a", "b"), given)
