"""Formats by their first bytes."""

from __future__ import annotations

import pytest

from kvedge.storage.imports.disk_formats import is_tar, recognise
from kvedge.storage.imports.import_errors import ImportFailure


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"QFI\xfb", "qcow2"),
        (b"KDMV", "vmdk"),
        (b"vhdxfile", "vhdx"),
        (b"conectix", "vpc"),
        (b"<<< Oracle VM".ljust(64, b"\0") + b"\x7f\x10\xda\xbe", "vdi"),
        (b"\xebc\x90", "raw"),
        (b"", "raw"),
    ],
)
def test_a_format_is_known_by_its_magic_and_all_else_is_raw(head: bytes, kind: str) -> None:
    assert recognise(head.ljust(512, b"\0")) == kind


@pytest.mark.parametrize("head", [b"# Disk DescriptorFile", b"QED\0", b"<!DOCTYPE html>", b"<html>"])
def test_what_is_known_to_be_no_image_is_refused(head: bytes) -> None:
    with pytest.raises(ImportFailure, match="no disk image"):
        recognise(head.ljust(512, b"\0"))


def test_an_archive_is_known() -> None:
    assert is_tar(bytes(257) + b"ustar\0")
    assert not is_tar(bytes(512))
