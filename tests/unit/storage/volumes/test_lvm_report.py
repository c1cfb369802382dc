"""What lvm2 says is read as it was recorded in a guest, and what is no report is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvedge.storage.volumes.lvm_report import parse_groups, parse_volumes, restrict_to
from kvedge.storage.volumes.volume_driver import VolumeDriverError

# By lvm2 2.03.16 with the kernel 6.1 of Debian 12, in tests/machine/volumes/test_thin_driver.py.
_RECORDED = Path(__file__).parent / "lvm_reports"


def test_volumes_are_read_as_lvm2_told_them() -> None:
    found = {each.name: each for each in parse_volumes((_RECORDED / "volumes.json").read_text())}
    disk = found["kvedge-0f5c0000-0000-4000-8000-000000000001"]
    assert (disk.size, disk.minor, disk.pool, disk.suspended) == (32 << 20, 5, "thin", False)
    assert disk.tags == {"kvedge", "kvedge.block", "kvedge.size=33554432"}
    pool = found["thin"]
    assert pool.layout == {"thin", "pool"}
    assert (pool.data_percent, pool.metadata_percent) == (3.75, 11.62)
    assert (pool.needs_check, pool.health, pool.missing_devices) == (False, "", 0)
    assert found["kvedge-snapshot-0f5c0000-0000-4000-8000-000000000001"].minor == -1
    assert "thin_tmeta" in found


def test_a_group_on_several_disks_is_one_and_a_disk_that_lacks_is_none_of_it() -> None:
    rows = [{"vg_name": "ssd", "vg_uuid": "u", "pv_name": name} for name in ("/dev/sdb", "/dev/sda", "[unknown]")]
    (group,) = parse_groups(json.dumps({"report": [{"vg": rows}]}))
    assert (group.name, group.devices) == ("ssd", ("/dev/sda", "/dev/sdb"))


@pytest.mark.parametrize("text", ["", "[]", '{"report": [{"lv": ["x"]}]}', '{"log": []}'])
def test_what_is_no_report_is_told(text: str) -> None:
    with pytest.raises(VolumeDriverError, match="lvm2 gave no report as JSON"):
        parse_volumes(text)


def test_a_device_with_letters_that_patterns_take_for_themselves_is_named_without_them() -> None:
    text = restrict_to(["/dev/mapper/luks-1.b|x"])
    assert 'filter=["a|^/dev/mapper/luks-1.b.x$|","r|.*|"]' in text
