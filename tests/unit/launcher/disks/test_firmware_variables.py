"""UEFI's variables of a guest that has come, in their file before the guest runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.launcher.disks.firmware_variables import keep_variables


def test_they_are_written_in_place_once(tmp_path: Path) -> None:
    file = tmp_path / "web_VARS.fd"
    file.write_bytes(b"template")
    inode = file.stat().st_ino
    assert keep_variables(str(file), b"the keys")
    # QEMU has that very file open.
    assert (file.read_bytes(), file.stat().st_ino) == (b"the keys", inode)
    before = file.stat().st_mtime_ns
    assert not keep_variables(str(file), b"the keys")
    assert file.stat().st_mtime_ns == before


def test_a_file_of_another_size_or_a_link_is_not_written(tmp_path: Path) -> None:
    other, link = tmp_path / "other", tmp_path / "link"
    other.write_bytes(b"longer than that")
    with pytest.raises(OSError, match="16 bytes"):
        keep_variables(str(other), b"the keys")
    os.symlink(other, link)
    with pytest.raises(OSError, match="link"):
        keep_variables(str(link), b"longer than thaT")
    assert other.read_bytes() == b"longer than that"
