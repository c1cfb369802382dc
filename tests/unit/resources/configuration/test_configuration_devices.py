"""Devices that the KubeVirt object permits."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.configuration.configuration import Issue
from kvedge.resources.configuration.configuration_reading import Reading, read_configuration
from kvedge.resources.host_devices.permitted_devices import (
    MdevPermit,
    PciPermit,
    PermittedDevices,
    UsbMatch,
    UsbPermit,
)

AT = "spec.configuration.permittedHostDevices"
PCI = {"pciVendorSelector": "10DE:1EB8", "resourceName": "nvidia.com/t4"}
STICK = {"vendor": "46f4", "product": "1"}


def read(**permitted: Any) -> Reading:
    return read_configuration({"configuration": {"permittedHostDevices": permitted}})


def test_devices_of_all_kinds_are_in_force() -> None:
    reading = read(
        pciHostDevices=[PCI, {**PCI, "pciVendorSelector": "10de:1db6"}],
        mediatedDevices=[
            {"mdevNameSelector": "GRID T4-1Q", "resourceName": "nvidia.com/q", "externalResourceProvider": True}
        ],
        usb=[{"resourceName": "kubevirt.io/storage", "selectors": [STICK, {**STICK, "serial": "A1", "port": "1-2.3"}]}],
    )
    assert reading.findings == ()
    assert reading.configuration.permitted_devices == PermittedDevices(
        pci=(PciPermit("nvidia.com/t4", "10de", "1eb8"), PciPermit("nvidia.com/t4", "10de", "1db6")),
        mdev=(MdevPermit("nvidia.com/q", "GRID_T4-1Q", external=True),),
        usb=(UsbPermit("kubevirt.io/storage", (UsbMatch("46f4", "0001"), UsbMatch("46f4", "0001", "A1", "1-2.3"))),),
    )
    assert reading.configuration.permitted_devices.resources == {"nvidia.com/t4", "nvidia.com/q", "kubevirt.io/storage"}


def test_an_object_that_does_not_speak_of_devices_permits_whatever_plugins_there_are() -> None:
    assert read_configuration({"configuration": {}}).configuration.permitted_devices is None
    assert read().configuration.permitted_devices == PermittedDevices()


def a_stick(**selector: str) -> dict[str, Any]:
    return {"usb": [{"resourceName": "a.b/c", "selectors": [{**STICK, **selector}]}]}


@pytest.mark.parametrize(
    ("permitted", "field", "words"),
    [
        pytest.param(
            {"pciHostDevices": [{**PCI, "pciVendorSelector": "nvidia"}]},
            ".pciHostDevices[0].pciVendorSelector",
            "is no vendor:product; give it as lspci -nn shows it",
            id="no vendor and product",
        ),
        pytest.param(
            {"pciHostDevices": [PCI, {**PCI, "resourceName": "a.b/other"}]},
            ".pciHostDevices[1].pciVendorSelector",
            "10de:1eb8 is that of entry 0 too",
            id="a model twice",
        ),
        pytest.param(
            {"pciHostDevices": [{**PCI, "resourceName": "gpu"}]},
            ".pciHostDevices[0].resourceName",
            "'gpu' is no name of a resource",
            id="no resource",
        ),
        pytest.param(
            {"pciHostDevices": [{**PCI, "resourceName": "devices.kubevirt.io/kvm"}]},
            ".pciHostDevices[0].resourceName",
            "is not for devices of hosts; give a domain of your own",
            id="a resource of the node itself",
        ),
        pytest.param(
            {"pciHostDevices": [{**PCI, "resourceName": "requests.kubernetes.io/x"}]},
            ".pciHostDevices[0].resourceName",
            "give a domain of your own",
            id="a resource of Kubernetes",
        ),
        pytest.param(
            {"pciHostDevices": [PCI], "usb": [{"resourceName": "nvidia.com/t4", "selectors": [STICK]}]},
            ".usb[0].resourceName",
            "is that of pciHostDevices too; a resource has devices of one kind",
            id="a resource of two kinds",
        ),
        pytest.param(
            {"mediatedDevices": [{"mdevNameSelector": "", "resourceName": "a.b/c"}]},
            ".mediatedDevices[0].mdevNameSelector",
            "is no name of a type",
            id="no type",
        ),
        pytest.param({"usb": [{"resourceName": "a.b/c"}]}, ".usb[0].selectors", "give 1 to 16", id="no selectors"),
        pytest.param(
            {"usb": [{"resourceName": "a.b/c", "selectors": [STICK] * 17}]},
            ".usb[0].selectors",
            "give 1 to 16",
            id="too many selectors",
        ),
        pytest.param(
            {"usb": [{"resourceName": "a.b/c", "selectors": [STICK]}] * 2},
            ".usb[1].resourceName",
            "a.b/c is that of entry 0 too",
            id="a USB resource twice",
        ),
        pytest.param(a_stick(vendor="0x46f4"), ".usb[0].selectors[0].vendor", "give it as lsusb shows it", id="vendor"),
        pytest.param(a_stick(product="12345"), ".usb[0].selectors[0].product", "give it as lsusb", id="product"),
        pytest.param(a_stick(port="usb1"), ".usb[0].selectors[0].port", "`kvedge device list` shows it", id="port"),
        pytest.param(a_stick(serial="s" * 129), ".usb[0].selectors[0].serial", "longer than 128", id="serial"),
        pytest.param(
            {"usb": [{"resourceName": "a.b/c", "selectors": [{**STICK, "port": "1-1"}] * 2}]},
            ".usb[0].selectors[1].port",
            "1-1 is that of entry 0 too",
            id="a port twice",
        ),
        pytest.param(
            {"pciHostDevices": [{**PCI, "pciVendorSelector": f"10de:{n:04x}"} for n in range(257)]},
            ".pciHostDevices",
            "has 257 entries; give at most 256",
            id="too many",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_is_named_and_not_there(permitted: dict[str, Any], field: str, words: str) -> None:
    reading = read(**permitted)
    (found,) = reading.of(Issue.INVALID)
    assert found.path == f"{AT}{field}"
    assert words in found.message


def test_a_bad_entry_takes_no_other_one_with_it() -> None:
    reading = read(pciHostDevices=[{**PCI, "pciVendorSelector": "x"}, PCI])
    assert reading.configuration.permitted_devices == PermittedDevices(
        pci=(PciPermit("nvidia.com/t4", "10de", "1eb8"),)
    )


def test_another_program_may_choose_usb_devices_by_rules_of_its_own() -> None:
    reading = read(usb=[{"resourceName": "a.b/c", "externalResourceProvider": True}])
    assert reading.findings == ()
    assert reading.configuration.permitted_devices == PermittedDevices(usb=(UsbPermit("a.b/c", (), external=True),))
