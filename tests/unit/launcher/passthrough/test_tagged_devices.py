"""What a guest is told of its tagged devices, on a node that is a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.launcher.domain.context import PassedDevice
from kvedge.launcher.domain.host_cpus import HostCell, HostCpus
from kvedge.launcher.passthrough.tagged_devices import describe_tagged
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.played_devices import PlayedDevices
from tests.unit.launcher.domain.vmis import context, vmi

CARD, UUID = "0000:65:00.0", "6ad2a3c8-7d5f-4f3e-9b55-0f8f3a1b2c3d"
PASSED = {
    "gpus/g": (PassedDevice(kind="pci", address=CARD),),
    "hostDevices/h": (PassedDevice(kind="usb", address="1:7"),),
}
DEVICES = {
    "gpus": [{"name": "g", "deviceName": "n.com/t4", "tag": "training"}],
    "hostDevices": [{"name": "h", "deviceName": "n.com/usb", "tag": "licence"}],
}
STICK = {"type": "hostdev", "bus": "usb", "address": "0:1", "tags": ["licence"]}
HOST = HostCpus((HostCell(0, ((1,), (2,))), HostCell(2, ((8,), (9,)))), 16)


@pytest.fixture
def node(tmp_path: Path) -> PlayedDevices:
    made = PlayedDevices(tmp_path / "node")
    made.add_pci(CARD, "10de:1eb8", "14")
    return made


def told(node: PlayedDevices, cell: str, **spec: Any) -> dict[str, object]:
    """What is told of the card."""
    (node.root / "sys/bus/pci/devices" / CARD / "numa_node").write_text(cell)
    guest = vmi({"devices": DEVICES, **spec})
    card, stick = describe_tagged(guest, context(host_devices=PASSED, host_cpus=HOST), str(node.root))
    assert stick == STICK
    return card


WITHOUT_CELL = {"type": "hostdev", "bus": "pci", "address": "0000:01:00.0", "tags": ["training"]}
DEDICATED = {"cores": 3, "dedicatedCpuPlacement": True}


def test_a_guest_that_shares_cpus_is_told_where_its_devices_are(node: PlayedDevices) -> None:
    assert told(node, "2\n") == WITHOUT_CELL


def test_a_guest_with_cpus_of_its_own_is_told_which_of_them_are_near(node: PlayedDevices) -> None:
    assert told(node, "2\n", cpu=DEDICATED) == WITHOUT_CELL | {"alignedCPUs": [2]}
    assert told(node, "0\n", cpu=DEDICATED) == WITHOUT_CELL | {"alignedCPUs": [0, 1]}


def test_a_guest_with_cells_is_told_its_own_cell_of_the_device(node: PlayedDevices) -> None:
    spec = {
        "cpu": DEDICATED | {"numa": {"guestMappingPassthrough": {}}},
        "memory": {"guest": "64Mi", "hugepages": {"pageSize": "2Mi"}},
    }
    assert told(node, "2\n", **spec) == WITHOUT_CELL | {"numaNode": 1}
    assert told(node, "1\n", **spec) == WITHOUT_CELL


@pytest.mark.parametrize("text", ["-1\n", "near\n", ""])
def test_a_cell_that_the_kernel_does_not_know_is_not_told(text: str, node: PlayedDevices) -> None:
    assert told(node, text, cpu=DEDICATED) == WITHOUT_CELL


def test_a_virtual_gpu_is_in_the_cell_of_its_card(node: PlayedDevices) -> None:
    card = node.root / "sys/bus/pci/devices" / CARD
    (card / "numa_node").write_text("2\n")
    (card / UUID).mkdir()
    (node.root / "sys/bus/mdev/devices").mkdir(parents=True)
    (node.root / "sys/bus/mdev/devices" / UUID).symlink_to(card / UUID)
    guest = vmi({"devices": {"gpus": DEVICES["gpus"]}, "cpu": DEDICATED})
    passed = {"gpus/g": (PassedDevice(kind="mdev", address=UUID),)}
    found = describe_tagged(guest, context(host_devices=passed, host_cpus=HOST), str(node.root))
    assert found == [WITHOUT_CELL | {"alignedCPUs": [2]}]


def test_a_guest_without_tags_is_told_of_none(node: PlayedDevices) -> None:
    devices = {"gpus": [{"name": "g", "deviceName": "n.com/t4"}]}
    assert not describe_tagged(vmi({"devices": devices}), context(host_devices=PASSED), str(node.root))


FUNCTION, MAC = "0000:65:02.3", "02:00:00:00:01:0a"


def with_function(**spec: Any) -> VirtualMachineInstance:
    """A guest with a tagged function of a NIC, one without a tag, and a card."""
    nics = [
        {"name": "fast", "sriov": {}, "tag": "uplink", "macAddress": MAC.upper(), "pciAddress": "0000:81:01.0"},
        {"name": "plain", "sriov": {}},
    ]
    networks = [{"name": each["name"], "multus": {"networkName": "red"}} for each in nics]
    return vmi({"devices": {"interfaces": nics, "gpus": DEVICES["gpus"]}, **spec}, networks=networks)


def test_a_function_of_a_nic_is_told_by_its_mac_and_with_the_cpus_that_are_near(node: PlayedDevices) -> None:
    node.add_pci(FUNCTION, "8086:154c", "42", device_class="020000")
    (node.root / "sys/bus/pci/devices" / FUNCTION / "numa_node").write_text("2\n")
    here = context(
        functions={"fast": FUNCTION.upper(), "plain": "0000:65:02.4"},
        host_devices={"gpus/g": PASSED["gpus/g"]},
        host_cpus=HOST,
    )
    row = {"type": "nic", "bus": "pci", "address": "0000:81:01.0", "mac": MAC, "tags": ["uplink"]}
    assert describe_tagged(with_function(), here, str(node.root)) == [row, WITHOUT_CELL]
    dedicated = with_function(cpu=DEDICATED)
    assert describe_tagged(dedicated, here, str(node.root)) == [row | {"alignedCPUs": [2]}, WITHOUT_CELL]
    # Longer than where it comes from must no image be.
    assert describe_tagged(dedicated, here, str(node.root), comes=True) == [row, WITHOUT_CELL]
    cells = with_function(
        cpu=DEDICATED | {"numa": {"guestMappingPassthrough": {}}},
        memory={"guest": "64Mi", "hugepages": {"pageSize": "2Mi"}},
    )
    assert describe_tagged(cells, here, str(node.root))[0] == row | {"numaNode": 1}
