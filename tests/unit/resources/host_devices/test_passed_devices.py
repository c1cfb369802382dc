"""Devices that go to a guest: how many, and by which variables."""

from __future__ import annotations

import pytest

from kvedge.resources.host_devices.passed_devices import addresses_variable, device_counts, passes_devices
from tests.support.builders import vmi_with


def test_devices_of_a_resource_add_up_whatever_list_they_are_in() -> None:
    gpus = [{"name": "g", "deviceName": "n/t4"}]
    others = [{"name": "a", "deviceName": "n/t4"}, {"name": "b", "deviceName": "n/usb"}, {"name": "c"}]
    vmi = vmi_with({"domain": {"devices": {"gpus": gpus, "hostDevices": others}}})
    assert device_counts(vmi) == {"n/t4": 2, "n/usb": 1}


@pytest.mark.parametrize(
    ("devices", "passes"),
    [
        pytest.param({}, False, id="none"),
        pytest.param({"gpus": [{"name": "g", "deviceName": "n/t4"}]}, True, id="a GPU"),
        pytest.param({"hostDevices": [{"name": "g", "deviceName": "n/t4"}]}, True, id="a host device"),
        pytest.param({"interfaces": [{"name": "red", "sriov": {}}]}, True, id="a function of a NIC"),
    ],
)
def test_a_guest_with_devices_of_the_node_is_known(devices: dict[str, object], passes: bool) -> None:
    assert passes_devices(vmi_with({"domain": {"devices": devices}})) is passes


def test_variables_are_kubevirts() -> None:
    assert addresses_variable("pci", "nvidia.com/GP102GL_Tesla-P40") == "PCI_RESOURCE_NVIDIA_COM_GP102GL_TESLA_P40"
    assert addresses_variable("mdev", "n.com/q") == "MDEV_PCI_RESOURCE_N_COM_Q"
    assert addresses_variable("usb", "kubevirt.io/storage") == "USB_RESOURCE_KUBEVIRT_IO_STORAGE"
