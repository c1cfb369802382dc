"""Notes beside volumes: written when they change, read back, and nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.storage.volumes.place_notes import NOTES, drop_note, read_notes, write_note

NAME = "vm-0f5c0000-0000-4000-8000-00000000000a"


def test_a_note_is_there_until_it_is_dropped_and_written_only_when_it_changes(tmp_path: Path) -> None:
    write_note(tmp_path, NAME, b"one")
    first = (tmp_path / NOTES / NAME).stat()
    write_note(tmp_path, NAME, b"one")
    assert (tmp_path / NOTES / NAME).stat().st_ino == first.st_ino
    assert first.st_mode & 0o777 == 0o600
    assert (tmp_path / NOTES).stat().st_mode & 0o777 == 0o700
    write_note(tmp_path, NAME, b"two")
    written = (tmp_path / NOTES / NAME).stat().st_mtime
    assert list(read_notes(tmp_path)) == [(NAME, b"two", written)]
    drop_note(tmp_path, NAME)
    drop_note(tmp_path, NAME)
    assert list(read_notes(tmp_path)) == []


def test_what_is_no_note_is_not_read(tmp_path: Path) -> None:
    assert list(read_notes(tmp_path)) == []
    write_note(tmp_path, NAME, b"x")
    (tmp_path / NOTES / NAME.replace("vm-", "pod-")).symlink_to("/etc/passwd")
    (tmp_path / NOTES / "other").write_bytes(b"y")
    assert [name for name, *_ in read_notes(tmp_path)] == [NAME]
    with pytest.raises(ValueError, match="no name"):
        write_note(tmp_path, "../x", b"")
