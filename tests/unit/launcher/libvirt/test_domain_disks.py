"""The disks of a running domain, as libvirt writes them down."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from kvedge.launcher.launcher_errors import WrongState
from kvedge.launcher.libvirt.domain_disks import drive_with_medium, read_device_bytes, read_disks
from kvedge.launcher.libvirt.domain_facts import DomainDisk

DOCUMENT = """
<domain><devices>
  <disk type="file" device="disk">
    <source file="/a/root.img"/><target dev="vda"/><alias name="ua-root"/>
  </disk>
  <disk type="block" device="lun"><source dev="/dev/claim"/><target dev="sda"/><alias name="ua-lun"/></disk>
  <disk type="file" device="cdrom">
    <driver name="qemu"/><source file="/a/old.iso"/><backingStore/><target dev="sdb" tray="open"/>
    <readonly/><alias name="ua-drive"/>
  </disk>
  <disk type="file"><alias name="ua-without-target"/></disk>
</devices></domain>
"""


def test_each_disk_has_the_name_of_the_vmi_and_its_file_or_device() -> None:
    assert list(read_disks(ElementTree.fromstring(DOCUMENT))) == [
        DomainDisk("root", "vda", "disk", "/a/root.img"),
        DomainDisk("lun", "sda", "lun", "/dev/claim"),
        DomainDisk("drive", "sdb", "cdrom", "/a/old.iso", read_only=True),
    ]


@pytest.mark.parametrize("block", [False, True], ids=["file", "block device"])
def test_a_drive_keeps_all_but_its_medium_and_its_tray(block: bool) -> None:
    drive = drive_with_medium(ElementTree.fromstring(DOCUMENT), "drive", "/a/new", block=block)
    assert [child.tag for child in drive] == ["driver", "source", "backingStore", "target", "readonly", "alias"]
    assert drive.get("type") == ("block" if block else "file")
    assert [child.attrib for child in drive.iter("source")] == [{"dev" if block else "file": "/a/new"}]
    assert [child.attrib for child in drive.iter("target")] == [{"dev": "sdb"}]


def test_an_empty_drive_has_no_source() -> None:
    drive = drive_with_medium(ElementTree.fromstring(DOCUMENT), "drive", "", block=False)
    assert [child.tag for child in drive] == ["driver", "target", "readonly", "alias"]


@pytest.mark.parametrize("name", ["root", "other"])
def test_only_a_drive_changes_its_medium(name: str) -> None:
    with pytest.raises(WrongState, match=f"no CD-ROM drive {name}"):
        drive_with_medium(ElementTree.fromstring(DOCUMENT), name, "/a/new", block=False)


def test_what_is_no_block_device_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert [read_device_bytes(path) for path in ("", str(tmp_path / "file"), str(tmp_path / "none"))] == [0, 0, 0]
