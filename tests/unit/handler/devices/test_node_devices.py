"""The devices of a node over time: what is permitted, plugged in and pulled out."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.handler.devices.device_users import DeviceUsers
from kvedge.handler.devices.node_devices import HostDevices
from kvedge.handler.pod_errors import PodNotReady
from kvedge.resources.host_devices.device_report import read_report
from kvedge.resources.host_devices.permitted_devices import PciPermit, PermittedDevices, UsbMatch, UsbPermit
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with
from tests.support.clocks import FakeClock
from tests.support.played_devices import PlayedDevices

GPU, USB = "nvidia.com/t4", "kubevirt.io/storage"
PERMITTED = PermittedDevices(pci=(PciPermit(GPU, "10de", "1eb8"),), usb=(UsbPermit(USB, (UsbMatch("46f4", "0001"),)),))


class _Node:
    def __init__(self, directory: Path) -> None:
        self.played = PlayedDevices(directory / "node")
        self.clock = FakeClock()
        self.vmis: list[VirtualMachineInstance] = []
        self.changes: list[None] = []
        users = DeviceUsers(lambda: self.vmis)
        self.devices = HostDevices(
            self.played.root, directory / "nodes", users, self.clock, lambda: self.changes.append(None)
        )

    def look(self) -> dict[str, dict[str, str]]:
        """By resource, each device with its health, once some time has passed."""
        self.clock.seconds += 5
        return {
            plugin.resource: {device.ID: device.health for device in plugin.render(plugin.state)}
            for plugin in self.devices.plugins()
        }

    def claim(self, name: str, resource: str, variable: str) -> Any:
        vmi = vmi_with({"domain": {"devices": {"hostDevices": [{"name": "d", "deviceName": resource}]}}}, name=name)
        vmi.metadata.uid = f"uid-{name}"
        self.vmis.append(vmi)
        launcher: Any = MagicMock()
        launcher.text.return_value = f"{variable}\0"
        self.devices.claim(vmi, launcher)
        return launcher

    def reports(self) -> dict[str, Any]:
        self.clock.seconds += 100
        return {each.device: each for each in read_report(self.devices.report())[0]}


@pytest.fixture
def node(tmp_path: Path) -> _Node:
    return _Node(tmp_path)


def test_what_is_permitted_is_offered_and_follows_what_is_plugged_in(node: _Node) -> None:
    node.played.plug_usb("1-2", "46f4:0001", 7)
    assert node.look() == {}
    node.devices.permit(PERMITTED)
    assert node.look() == {USB: {"1-2": "Healthy"}}
    node.played.unplug_usb("1-2")
    assert node.look() == {USB: {}}
    node.played.plug_usb("1-2", "46f4:0001", 9)
    node.played.plug_usb("1-3", "46f4:0001", 10)
    assert node.look() == {USB: {"1-2": "Healthy", "1-3": "Healthy"}}
    node.devices.permit(None)
    assert node.look() == {}


def test_a_plugin_stays_the_same_one_so_that_the_kubelet_keeps_it(node: _Node) -> None:
    node.devices.permit(PERMITTED)
    node.played.plug_usb("1-2", "46f4:0001", 7)
    node.look()
    (before,) = node.devices.plugins()
    node.played.plug_usb("1-3", "46f4:0001", 8)
    node.look()
    assert list(node.devices.plugins()) == [before]


def test_a_resource_that_is_left_to_another_program_is_offered_no_more(node: _Node) -> None:
    node.devices.permit(PERMITTED)
    node.played.plug_usb("1-2", "46f4:0001", 7)
    assert node.look() == {USB: {"1-2": "Healthy"}}
    node.devices.permit(PermittedDevices(usb=(UsbPermit(USB, (UsbMatch("46f4", "0001"),), external=True),)))
    assert node.look() == {}


def test_the_node_is_told_once_of_who_has_a_device(node: _Node) -> None:
    node.devices.permit(PERMITTED)
    node.played.plug_usb("1-2", "46f4:0001", 7)
    node.look()
    node.changes.clear()
    launcher = node.claim("first", USB, "USB_RESOURCE_KUBEVIRT_IO_STORAGE=1:7")
    node.devices.claim(node.vmis[0], launcher)
    assert len(node.changes) == 1
    launcher.text.assert_called_once_with("environ")


def test_the_node_is_told_of_changes_alone(node: _Node) -> None:
    node.devices.permit(PERMITTED)
    node.played.plug_usb("1-2", "46f4:0001", 7)
    node.look()
    told = len(node.changes)
    node.look()
    assert len(node.changes) == told == 1


def test_a_device_that_another_guest_has_keeps_a_second_one_waiting_by_name(node: _Node) -> None:
    node.devices.permit(PERMITTED)
    node.played.plug_usb("1-2", "46f4:0001", 7)
    node.look()
    node.claim("first", USB, "USB_RESOURCE_KUBEVIRT_IO_STORAGE=1:7")
    with pytest.raises(PodNotReady, match=r"device 1-2 of this node is that of VMI .*/first: it is free when"):
        node.claim("second", USB, "USB_RESOURCE_KUBEVIRT_IO_STORAGE=1:7")


def test_a_launcher_that_has_ended_is_no_crash(node: _Node) -> None:
    vmi = vmi_with({"domain": {"devices": {"hostDevices": [{"name": "d", "deviceName": USB}]}}})
    launcher: Any = MagicMock()
    launcher.text.side_effect = ProcessLookupError(3, "process 9 has ended")
    with pytest.raises(PodNotReady, match="process 9 has ended"):
        node.devices.claim(vmi, launcher)
    node.devices.claim(vmi_with({}), launcher)


def test_the_report_has_all_devices_permitted_or_not_and_their_users(node: _Node) -> None:
    node.devices.permit(PERMITTED)
    node.played.add_pci("0000:00:01.0", "8086:1901", "2", driver="pcieport", device_class="060400")
    node.played.add_pci("0000:65:00.0", "10de:1eb8", "14")
    node.played.add_pci("0000:65:00.1", "10de:1eb8", "14")
    node.played.add_pci("0000:66:00.0", "8086:1572", "15", driver="i40e", device_class="020000")
    node.played.plug_usb("1-2", "46f4:0001", 7, serial="A1")
    node.look()
    node.claim("web", USB, "USB_RESOURCE_KUBEVIRT_IO_STORAGE=1:7")
    found = node.reports()

    assert list(found) == ["0000:65:00.0", "0000:65:00.1", "1-2", "0000:66:00.0"]
    assert (found["0000:65:00.0"].resource, found["0000:65:00.0"].trouble) == (GPU, "")
    assert found["0000:65:00.1"].trouble == "goes with 0000:65:00.0, which is in the same IOMMU group"
    assert (found["1-2"].used_by.endswith("/web"), found["1-2"].serial, found["1-2"].name) == (
        True,
        "A1",
        "Maker Stick",
    )
    assert (found["0000:66:00.0"].resource, found["0000:66:00.0"].driver) == ("", "i40e")


def test_a_device_that_is_gone_under_its_guest_is_still_told(node: _Node) -> None:
    node.devices.permit(PERMITTED)
    node.played.plug_usb("1-2", "46f4:0001", 7)
    node.look()
    node.claim("web", USB, "USB_RESOURCE_KUBEVIRT_IO_STORAGE=1:7")
    node.played.unplug_usb("1-2")
    found = node.reports()["1-2"]
    assert (found.kind, found.resource) == ("usb", USB)
    assert found.trouble == "is no longer on this node: restart the VM once it is back"
    assert node.look() == {USB: {"1-2": "Unhealthy"}}
