"""Images that would have qemu-img open other files."""

from __future__ import annotations

import struct

import pytest

from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.sinks.foreign_image import check_foreign

HONEST = 'createType="monolithicSparse"\nparentCID=ffffffff\nRW 4096 SPARSE "a.vmdk"\n'


def vmdk(text: str, capacity: int = 4096, version: int = 1, sectors: int = 20, offset: int = 1) -> bytes:
    head = struct.pack("<4sIIQQQQ", b"KDMV", version, 3, capacity, 128, offset, sectors).ljust(512, b"\0")
    return head + text.encode().ljust(20 * 512, b"\0")


def test_a_vmdk_with_all_its_data_is_taken() -> None:
    check_foreign(vmdk(HONEST), "vmdk")


@pytest.mark.parametrize(
    "image",
    [
        vmdk(HONEST, capacity=0),
        vmdk(HONEST, version=9),
        vmdk(HONEST, sectors=1 << 40),
        vmdk('RW 4096 FLAT "/etc/shadow" 0\n'),
        vmdk(HONEST + 'RW 4096 FLAT "/etc/shadow" 0\n'),
        vmdk(HONEST + 'parentFileNameHint="/etc/shadow"\n'),
        vmdk(HONEST + 'ddb.x="parentFileNameHint="/etc/shadow"'),
        vmdk(HONEST + "\0" * 600 + 'parentFileNameHint="/etc/shadow"', sectors=1),
        vmdk(HONEST, offset=100),
        vmdk(HONEST + 'parentFileNameHint="/etc/shadow"', offset=2),
        vmdk(HONEST)[:9000],
        vmdk(HONEST, sectors=21),
        vmdk('RW 4096 SPARSE "/srv/other.vmdk"\n'),
        vmdk('RW 4096 SPARSE "json:{}"\n'),
        vmdk('RW 4096 SPARSE "nbd:host"\n'),
        vmdk(HONEST + '\rrw 4096 SPARSE "b.vmdk"\n'),
        vmdk(""),
        b"KDMV",
    ],
    ids=[
        "no size",
        "version",
        "huge text",
        "flat",
        "two extents",
        "parent",
        "parent within a line",
        "parent behind the descriptor that the header tells",
        "descriptor behind what was read",
        "descriptor elsewhere",
        "descriptor cut",
        "descriptor longer than what was read",
        "path",
        "options",
        "server",
        "second extent after a return",
        "no extent",
        "cut",
    ],
)
def test_a_vmdk_that_names_other_files_is_refused(image: bytes) -> None:
    with pytest.raises(ImportFailure, match=r"(?i)vmdk"):
        check_foreign(image, "vmdk")


@pytest.mark.parametrize(("kind", "offset", "good", "bad"), [("vdi", 0x4C, b"\1\0\0\0", b"\4\0\0\0"),
                                                            ("vpc", 60, b"\0\0\0\3", b"\0\0\0\4")])  # fmt: skip
def test_an_image_that_needs_its_parent_is_refused(kind: str, offset: int, good: bytes, bad: bytes) -> None:
    check_foreign(bytes(offset) + good + bytes(512), kind)
    with pytest.raises(ImportFailure, match="parent"):
        check_foreign(bytes(offset) + bad + bytes(512), kind)
