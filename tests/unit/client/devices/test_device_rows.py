"""The lines of `kvedge device list`."""

from __future__ import annotations

import pytest

from kvedge.client.devices.device_rows import HEADER, device_rows
from kvedge.resources.host_devices.device_report import DeviceReport, write_report
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import HOST_DEVICES
from kvedge.resources.types.core import Node

FREE = DeviceReport(
    kind="pci", device="0000:65:00.0", model="10de:1eb8", driver="vfio-pci", group="14", resource="n/t4"
)
USED = DeviceReport(kind="usb", device="1-2", model="46f4:0001", serial="A1", resource="n/usb", used_by="shop/web")
OTHER = DeviceReport(kind="pci", device="0000:66:00.0", model="8086:1572", driver="i40e")


def a_node(name: str, text: str | None = None, *devices: DeviceReport) -> Node:
    annotations = {HOST_DEVICES: write_report(devices) if text is None else text}
    return Node(metadata=ObjectMeta(name=name, annotations=annotations))


def test_devices_are_shown_by_node_with_who_has_them() -> None:
    rows, notes = device_rows([a_node("b", None, USED), a_node("a", None, FREE, OTHER), a_node("c", "")])
    assert notes == []
    assert [row.cells() for row in rows] == [
        ["a", "pci", "0000:65:00.0", "10de:1eb8", "-", "-", "n/t4", "-", "free"],
        ["a", "pci", "0000:66:00.0", "8086:1572", "-", "-", "-", "-", "not permitted, driver i40e"],
        ["b", "usb", "1-2", "46f4:0001", "-", "A1", "n/usb", "shop/web", "in use"],
    ]
    assert len(HEADER) == len(rows[0].cells())
    assert rows[2].document() == {
        "node": "b",
        "kind": "usb",
        "device": "1-2",
        "model": "46f4:0001",
        "serial": "A1",
        "resource": "n/usb",
        "usedBy": "shop/web",
        "permitted": True,
    }


def test_those_that_vms_may_have_can_be_shown_alone() -> None:
    rows, _ = device_rows([a_node("a", None, FREE, OTHER)], permitted_only=True)
    assert [row.report.device for row in rows] == ["0000:65:00.0"]


def test_what_keeps_a_device_back_is_its_state() -> None:
    ((row,), _) = device_rows(
        [a_node("a", None, DeviceReport(kind="pci", device="x", resource="n/a", trouble="is bad"))]
    )
    assert row.state == "is bad"


@pytest.mark.parametrize("text", ["rubbish", "[]"])
def test_a_node_that_cannot_be_understood_hides_no_other_one(text: str) -> None:
    rows, notes = device_rows([a_node("a", text), a_node("b", None, FREE)])
    assert [row.node for row in rows] == ["b"]
    assert notes == ["node a: what it says of its devices cannot be read; see that its handler runs"]


def test_a_note_tells_of_devices_that_are_not_shown() -> None:
    many = [DeviceReport(kind="usb", device=f"1-{n}") for n in range(200)]
    assert device_rows([a_node("a", None, *many)])[1] == ["node a: 72 more devices are not shown"]


def test_what_a_stick_calls_itself_does_nothing_to_a_terminal() -> None:
    stick = DeviceReport(kind="usb", device="1-1", name="\x1b]0;mine\x07a\nstick")
    ((row,), _) = device_rows([a_node("a", None, stick)])
    assert row.cells()[4] == "a stick"
