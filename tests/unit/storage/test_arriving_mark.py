"""The word beside an image that is no disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.storage import arriving_mark
from kvedge.storage.arriving_mark import ARRIVING, mark_returning, read_arriving, write_arriving
from kvedge.storage.beneath import hold_directory


@pytest.mark.parametrize(
    ("content", "found"),
    [(None, []), (b"u m-1\n", ["u", "m-1"]), (b"", ["?"]), (b"\xff" * 4096, ["\ufffd" * 256])],
    ids=["none", "as it is written", "cut short by a crash", "of somebody else"],
)
def test_whatever_lies_there_says_that_the_image_is_no_disk(
    tmp_path: Path, content: bytes | None, found: list[str]
) -> None:
    if content is not None:
        (tmp_path / ARRIVING).write_bytes(content)
    with hold_directory(tmp_path) as directory:
        assert read_arriving(directory) == found


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ARRIVING).symlink_to("/etc/passwd")
    with hold_directory(tmp_path) as directory, pytest.raises(OSError, match="symbolic links"):
        read_arriving(directory)


@pytest.mark.parametrize("replace", [True, False], ids=["in place of another word", "where none is"])
def test_a_word_whose_writer_is_killed_is_none_and_the_next_attempt_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, replace: bool
) -> None:
    def killed(*_args: object) -> int:
        raise KeyboardInterrupt

    with hold_directory(tmp_path) as directory:
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", killed)
            with pytest.raises(KeyboardInterrupt):
                write_arriving(directory, "u m-1\n", 0o660, replace=replace)
        assert [each.stat().st_size for each in tmp_path.iterdir()] == [0], "what it has left behind"
        assert read_arriving(directory) == []
        write_arriving(directory, "u m-2\n", 0o660, replace=replace)
        assert read_arriving(directory) == ["u", "m-2"]
    assert os.listdir(tmp_path) == [ARRIVING]
    assert (tmp_path / ARRIVING).stat().st_mode & 0o777 == 0o660


def test_a_word_that_came_meanwhile_stays_where_none_is_expected(tmp_path: Path) -> None:
    with hold_directory(tmp_path) as directory:
        write_arriving(directory, "u m-1\n", 0o660)
        with pytest.raises(FileExistsError):
            write_arriving(directory, "other m-2\n", 0o660, replace=False)
        assert read_arriving(directory) == ["u", "m-1"]


def test_a_disk_that_comes_back_says_so_to_every_user(tmp_path: Path) -> None:
    with hold_directory(tmp_path) as directory:
        mark_returning(directory)
        assert read_arriving(directory) == [arriving_mark.RETURNING]
    assert (tmp_path / ARRIVING).stat().st_mode & 0o777 == 0o644
