"""Networks of SR-IOV, as plugins, Multus and KubeVirt write them down."""

from __future__ import annotations

import json

import pytest

from kvedge.resources.types.sriov_networks import (
    NetworkDevice,
    devices_variables,
    is_resource,
    network_info,
    parse_network_info,
    passes_functions,
)
from tests.support.builders import a_vmi, vmi_with

PCI = {"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:65:02.0"}}


def test_the_annotation_is_kubevirts() -> None:
    devices = [
        NetworkDevice(network="red", device_info=PCI, mac="02:00:00:00:00:01", mtu=9000),
        NetworkDevice(network="a"),
    ]
    text = network_info(devices)
    assert json.loads(text) == {
        "interfaces": [
            {"network": "a"},
            {"network": "red", "deviceInfo": PCI, "mac": "02:00:00:00:00:01", "mtu": 9000},
        ]
    }
    assert [device.network for device in parse_network_info(text)] == ["a", "red"]
    assert parse_network_info(text)[1].pci_address == "0000:65:02.0"


@pytest.mark.parametrize(
    "info", [None, {}, {"pci": 3}, {"pci": {}}, {"pci": {"pci-address": 3}}, {"vdpa": {}}], ids=str
)
def test_a_device_that_is_no_pci_function_has_no_address(info: dict[str, object] | None) -> None:
    assert NetworkDevice(network="red", device_info=info).pci_address == ""


def test_the_plugins_variable_has_the_resources_name_in_capitals() -> None:
    assert devices_variables("intel.com/sriov_a") == ("PCIDEVICE_INTEL_COM_SRIOV_A", "PCIDEVICE_INTEL_COM_SRIOV_A")
    assert devices_variables("my-corp.com/a-b") == ("PCIDEVICE_MY-CORP_COM_A-B", "PCIDEVICE_MY_CORP_COM_A_B")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("intel.com/sriov", True),
        ("a/b", True),
        ("b", False),
        ("/b", False),
        ("a/", False),
        ("A b/c", False),
        (3, False),
    ],
)
def test_a_resource_has_a_domain_and_a_name(name: object, is_one: bool) -> None:
    assert is_resource(name) is is_one


def test_a_guest_passes_functions_when_an_interface_is_one() -> None:
    assert not passes_functions(a_vmi())
    assert passes_functions(vmi_with({"domain": {"devices": {"interfaces": [{"name": "red", "sriov": {}}]}}}))
