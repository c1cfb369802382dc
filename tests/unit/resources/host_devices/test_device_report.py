"""What a node says of its devices, and within which bounds."""

from __future__ import annotations

import pytest

from kvedge.resources.host_devices.device_report import MOST_DEVICES, DeviceReport, read_report, write_report


def test_what_is_written_is_read() -> None:
    devices = [
        DeviceReport(kind="usb", device="1-2", model="46f4:0001", resource="a/b", used_by="ns/vm"),
        DeviceReport(kind="pci", device="0000:01:00.0", model="10de:1eb8", trouble="is bad"),
    ]
    assert read_report(write_report(devices)) == (devices, 0)


def test_of_very_many_devices_those_that_vms_may_have_are_told() -> None:
    many = [
        DeviceReport(kind="usb", device=str(n), name="n" * 500, serial="s" * 500, trouble="t" * 900) for n in range(999)
    ]
    text = write_report([*many, DeviceReport(kind="usb", device="mine", resource="a/b")])
    found, more = read_report(text)
    assert (len(found), more, found[0].device) == (MOST_DEVICES, 1000 - MOST_DEVICES, "mine")
    assert len(text) < 128 << 10


@pytest.mark.parametrize("text", ["", "[]", '{"devices": [{}]}', '{"devices": 3}'])
def test_what_is_no_report_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read_report(text)
