"""The devices of a guest, found in its Pod and looked at on a node that is a directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvedge.launcher.domain.context import PassedDevice
from kvedge.launcher.launcher_errors import BadRequest, DeviceUnusable
from kvedge.launcher.passthrough.functions import functions_of
from kvedge.launcher.passthrough.host_devices import host_devices_of
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with
from tests.support.claim_metadata import metadata, pci, tell_device
from tests.support.golden.domain_cases import load_case
from tests.support.played_devices import PlayedDevices

GPU, UUID = "0000:65:00.0", "6ad2a3c8-7d5f-4f3e-9b55-0f8f3a1b2c3d"
ENVIRONMENT = {
    "PCI_RESOURCE_N_COM_T4": GPU,
    "MDEV_PCI_RESOURCE_N_COM_Q": UUID,
    "USB_RESOURCE_N_COM_USB": "1:7",
}


def guest(*, gpus: tuple[str, ...] = (), others: tuple[str, ...] = ()) -> VirtualMachineInstance:
    devices = {
        "gpus": [{"name": f"g{n}", "deviceName": each} for n, each in enumerate(gpus)],
        "hostDevices": [{"name": f"h{n}", "deviceName": each} for n, each in enumerate(others)],
    }
    return vmi_with({"domain": {"devices": devices}})


ALL = guest(gpus=("n.com/t4", "n.com/q"), others=("n.com/usb",))


@pytest.fixture
def node(tmp_path: Path) -> PlayedDevices:
    made = PlayedDevices(tmp_path / "node")
    made.add_pci(GPU, "10de:1eb8", "14")
    made.add_mdev(UUID, "GRID_T4-1Q", "31")
    made.plug_usb("1-2", "46f4:0001", 7)
    return made


def test_each_entry_gets_a_device_of_its_resource(node: PlayedDevices) -> None:
    assert host_devices_of(ALL, str(node.root), ENVIRONMENT) == {
        "gpus/g0": (PassedDevice(kind="pci", address=GPU),),
        "gpus/g1": (PassedDevice(kind="mdev", address=UUID),),
        "hostDevices/h0": (PassedDevice(kind="usb", address="1:7"),),
    }
    assert host_devices_of(guest(), str(node.root), ENVIRONMENT) == {}


def test_a_device_that_has_no_node_in_the_pod_is_told_by_field_with_a_remedy(node: PlayedDevices) -> None:
    node.unplug_usb("1-2")
    with pytest.raises(DeviceUnusable, match=r"hostDevices\[0\].deviceName.* lacks /dev/bus/usb/001/007") as told:
        host_devices_of(ALL, str(node.root), ENVIRONMENT)
    assert "kvedge device list" in str(told.value)


def test_a_function_is_judged_as_those_of_nics_are(node: PlayedDevices) -> None:
    (node.root / f"sys/bus/pci/devices/{GPU}/driver").unlink()
    with pytest.raises(DeviceUnusable, match=rf"gpus\[0\].deviceName.*{GPU} has no driver"):
        host_devices_of(ALL, str(node.root), ENVIRONMENT)


def test_a_mediated_device_that_is_gone_or_has_no_group_is_told(node: PlayedDevices) -> None:
    (node.root / "dev/vfio/31").unlink()
    with pytest.raises(DeviceUnusable, match=r"gpus\[1\].deviceName: the Pod lacks /dev/vfio/31"):
        host_devices_of(ALL, str(node.root), ENVIRONMENT)
    shutil.rmtree(node.root / f"sys/bus/mdev/devices/{UUID}")
    with pytest.raises(DeviceUnusable, match=rf"mediated device {UUID} is not on this node"):
        host_devices_of(ALL, str(node.root), ENVIRONMENT)


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("PCI_RESOURCE_N_COM_T4", "is no PCI address"),
        ("MDEV_PCI_RESOURCE_N_COM_Q", "is no UUID of a mediated device"),
        ("USB_RESOURCE_N_COM_USB", r"is no USB device \(bus:device\)"),
    ],
)
def test_an_address_that_is_none_leads_nowhere(node: PlayedDevices, variable: str, words: str) -> None:
    with pytest.raises(BadRequest, match=rf"'\.\./\.\./x' {words}"):
        host_devices_of(ALL, str(node.root), {**ENVIRONMENT, variable: "../../x"})


def claiming(*others: str) -> VirtualMachineInstance:
    """Two GPUs of a claim, and devices of device plugins beside them."""
    gpus = [{"name": name, "claimName": "c", "requestName": name} for name in ("part", "whole")]
    devices = [{"name": f"h{n}", "deviceName": each} for n, each in enumerate(others)]
    claims = [{"name": "c", "resourceClaimName": "cards"}]
    return vmi_with({"domain": {"devices": {"gpus": gpus, "hostDevices": devices}}, "resourceClaims": claims})


def test_a_claims_devices_are_those_that_its_driver_tells(node: PlayedDevices) -> None:
    tell_device(node.root, "resourceclaims/cards/whole", metadata("whole", pci(GPU)))
    # Of a part of a card the driver may tell the card's address as well.
    tell_device(node.root, "resourceclaims/cards/part", metadata("part", {"mdevUUID": UUID, **pci(GPU)}))
    assert host_devices_of(claiming("n.com/usb"), str(node.root), ENVIRONMENT) == {
        "gpus/part": (PassedDevice(kind="mdev", address=UUID),),
        "gpus/whole": (PassedDevice(kind="pci", address=GPU),),
        "hostDevices/h0": (PassedDevice(kind="usb", address="1:7"),),
    }
    with pytest.raises(BadRequest, match=rf"gpus\[1\].claimName: its device {GPU} is that of another entry"):
        host_devices_of(claiming("n.com/t4"), str(node.root), ENVIRONMENT)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, r"gpus\[1\].claimName: the DRA driver gpu.example.com tells neither a PCI address nor"),
        (pci("../../x"), r"gpus\[1\].claimName: '../../x' is no PCI address"),
        ({"mdevUUID": "../x"}, r"gpus\[1\].claimName: '../x' is no UUID of a mediated device"),
        (pci("0000:99:00.0"), r"is not on this node; see that .* the DRA driver gpu.example.com knows it"),
    ],
    ids=["nothing", "no address", "no UUID", "gone"],
)
def test_what_a_driver_tells_is_looked_at(node: PlayedDevices, attributes: dict[str, str], words: str) -> None:
    tell_device(node.root, "resourceclaims/cards/part", metadata("part", {"mdevUUID": UUID}))
    tell_device(node.root, "resourceclaims/cards/whole", metadata("whole", attributes))
    with pytest.raises((BadRequest, DeviceUnusable), match=words):
        host_devices_of(claiming(), str(node.root), ENVIRONMENT)


def test_what_drivers_tell_is_the_context_of_the_golden_domain_that_libvirt_accepts(tmp_path: Path) -> None:
    case = load_case("claimed-devices")
    played = PlayedDevices(tmp_path / "node")
    functions = ("0000:65:02.3", "0000:65:00.0", "0000:3D:01.7", "0000:3D:02.0")
    for number, address in enumerate(functions, 40):
        played.add_pci(address.lower(), "10de:1eb8", str(number))
    played.add_mdev(UUID, "GRID_T4-1Q", "31")
    made = "resourceclaimtemplates/cards"
    tell_device(played.root, f"{made}/part", metadata("part", {"mdevUUID": UUID, **pci("0000:65:00.0")}))
    tell_device(played.root, f"{made}/whole", metadata("whole", pci("0000:65:00.0")))
    tell_device(played.root, f"{made}/crypto", metadata("crypto", pci("0000:3D:01.7")))
    tell_device(played.root, "resourceclaims/the-nics/port", metadata("port", pci("0000:65:02.3")))
    plugins = {"PCI_RESOURCE_INTEL_COM_QAT": "0000:3D:02.0"}
    found = host_devices_of(case.vmi, str(played.root), plugins)
    assert {key: [*devices] for key, devices in found.items()} == case.context.host_devices
    assert functions_of(case.vmi, str(played.root), plugins) == case.context.functions
