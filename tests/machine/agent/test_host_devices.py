"""Devices that go to one Pod each: the node's sysfs is played, the handler's plugins and the node agent are real."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvedge.handler.devices.device_users import DeviceUsers
from kvedge.handler.devices.node_devices import HostDevices
from kvedge.handler.node.device_plugins import DevicePlugins
from kvedge.resources.configuration.configuration_reading import read_configuration
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Node, Pod, ResourceRequirements
from kvedge.runtime.clock import SystemClock
from tests.machine.agent.box import NODE, Box, box, shell_pod
from tests.support.played_devices import PlayedDevices
from tests.support.waiting import wait_until

STICK, GPU = "kubevirt.io/storage", "nvidia.com/t4"
PERMITTED = {
    "pciHostDevices": [{"pciVendorSelector": "10de:1eb8", "resourceName": GPU}],
    "usb": [{"resourceName": STICK, "selectors": [{"vendor": "46f4", "product": "0001", "serial": "A1"}]}],
}
# What the Pod was told and given.
SHOW = "env | grep _RESOURCE_ | sort; find /dev/vfio /dev/bus -type c 2>/dev/null | sort; echo shown; sleep 1000"


@dataclass
class _Node:
    box: Box
    played: PlayedDevices

    def make(self, name: str, **devices: str) -> None:
        pod = shell_pod(name, SHOW)
        pod.spec.containers[0].resources = ResourceRequirements(
            limits={{"stick": STICK, "gpu": GPU}[kind]: count for kind, count in devices.items()}
        )
        self.box.client.create(pod)

    def said(self, name: str) -> list[str]:
        pod = self.box.in_phase(name, "Running")
        wait_until(lambda: "shown" in self.box.said(pod), "it has shown what it has")
        return self.box.said(pod).splitlines()

    def waits(self, name: str) -> str:
        """Why a Pod is on no node, once somebody has said so."""

        def look() -> str:
            pod = self.box.pod(name)
            found = condition(pod.status.conditions, "PodScheduled") if pod is not None else None
            return found.message if found is not None and found.status == "False" else ""

        return wait_until(look, f"{name} waits")

    def amounts(self, resource: str) -> tuple[str, str]:
        """What the Node has of it, and what of that can be given."""
        status = self.box.client.get(Node, "", NODE).status
        return str(status.capacity.get(resource)), str(status.allocatable.get(resource))


def _make_null(path: Path) -> None:
    if not path.exists():
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))


@pytest.fixture
def node(tmp_path: Path, busybox: Path) -> Iterator[_Node]:
    (tmp_path / "data").mkdir()
    with box(tmp_path / "data", busybox, "10.243.23.0/24") as one:
        played = PlayedDevices(tmp_path / "node", _make_null)
        users = DeviceUsers(list)
        devices = HostDevices(played.root, tmp_path / "nodes", users, SystemClock(), lambda: None)
        devices.permit(
            read_configuration({"configuration": {"permittedHostDevices": PERMITTED}}).configuration.permitted_devices
        )
        plugins = DevicePlugins(one.config.kubelet / "device-plugins", [], devices.plugins)
        one.start_agent()
        plugins.start()
        try:
            yield _Node(one, played)
        finally:
            plugins.stop()


def test_a_pod_gets_the_device_and_a_second_one_waits_until_it_is_free(node: _Node) -> None:
    node.played.plug_usb("1-1", "46f4:0001", 6, serial="B2")
    node.played.plug_usb("1-2", "46f4:0001", 7, serial="A1")
    wait_until(lambda: node.amounts(STICK) == ("1", "1"), "the one stick of that serial number is offered")
    node.make("first", stick="1")
    assert node.said("first") == ["USB_RESOURCE_KUBEVIRT_IO_STORAGE=1:7", "/dev/bus/usb/001/007", "shown"]
    node.make("second", stick="1")
    assert f"Insufficient {STICK}" in node.waits("second")

    node.box.client.delete(Pod, "default", "first", grace_seconds=1)
    assert node.said("second")[0] == "USB_RESOURCE_KUBEVIRT_IO_STORAGE=1:7"
    node.played.unplug_usb("1-2")
    wait_until(lambda: node.amounts(STICK)[1] == "0", "a stick that was pulled out is not offered")
    node.played.plug_usb("1-2", "46f4:0001", 9, serial="A1")
    wait_until(lambda: node.amounts(STICK)[1] == "1", "and is again when it is back")


def test_a_function_whose_group_the_host_uses_is_there_and_cannot_be_given(node: _Node) -> None:
    node.played.add_pci("0000:65:00.0", "10de:1eb8", "14")
    node.played.add_pci("0000:66:00.0", "10de:1eb8", "15")
    node.played.add_pci("0000:66:00.1", "10de:10f8", "15", driver="snd_hda_intel", device_class="040300")
    wait_until(lambda: node.amounts(GPU) == ("2", "1"), "one of two can be given")
    node.make("first", gpu="1")
    assert node.said("first") == [
        "PCI_RESOURCE_NVIDIA_COM_T4=0000:65:00.0",
        "/dev/vfio/14",
        "/dev/vfio/vfio",
        "shown",
    ]
    node.make("second", gpu="1")
    assert f"Insufficient {GPU}" in node.waits("second")
