"""What outlasts a launcher of a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.copies.copy_record import CopyRecord, CopyStore


def test_another_launcher_finds_what_was_kept(tmp_path: Path) -> None:
    record = CopyRecord(
        "a", started_ms=5, quiesce="GuestAgent", frozen_ms=17, disks=(("root", "root-copy", False), ("data", "c", True))
    )
    CopyStore(str(tmp_path)).keep(record)
    assert CopyStore(str(tmp_path)).read() == record
    assert record.is_open


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 7, "complete": "yes"}'])
def test_what_is_no_record_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "disk-copy.json").write_text(text)
    assert CopyStore(str(tmp_path)).read() == CopyRecord()
    assert not CopyStore(str(tmp_path)).read().is_open


def test_one_that_is_over_is_not_open() -> None:
    assert not CopyRecord("a", ended_ms=1).is_open


@pytest.mark.parametrize("disks", ['"root"', '[["root", "copy"]]', '[["root", "copy", false], [1, "copy", true]]'])
def test_disks_that_are_not_whole_are_none(tmp_path: Path, disks: str) -> None:
    (tmp_path / "disk-copy.json").write_text(f'{{"id": "a", "started_ms": 5, "disks": {disks}}}')
    assert CopyStore(str(tmp_path)).read() == CopyRecord("a", started_ms=5)
