"""Which dropped files are seen, when they count as whole, and that nothing outside is ever opened."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from kvedge.standalone.drop_ins.dropped_files import (
    DroppedFile,
    NotTrusted,
    NotYet,
    SettledFiles,
    compute_digest,
    look_at,
    open_whole,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "images"
    found.mkdir(mode=0o755)
    return found


def never() -> None:
    """Nothing asks to stop."""


def only(directory: Path) -> DroppedFile:
    (file,) = look_at(directory, recursive=False).files.values()
    return file


def test_hidden_and_unfinished_files_and_the_stores_own_are_not_seen(directory: Path) -> None:
    for name in (".fedora.qcow2.Xa3", "a.part", "b.qcow2.crdownload", "c~", "lock", "good.qcow2"):
        (directory / name).write_bytes(b"x")
    assert set(look_at(directory, recursive=False, skip=frozenset({"lock"})).files) == {"good.qcow2"}


def test_directories_below_are_looked_into_only_when_wanted(directory: Path) -> None:
    (directory / "site").mkdir()
    (directory / "site/vm.yaml").write_text("")
    assert look_at(directory, recursive=False).files == {}
    assert set(look_at(directory, recursive=True).files) == {"site/vm.yaml"}


def test_links_and_fifos_are_refused_by_name_and_not_followed(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/a.yaml").write_text("")
    (directory / "link.yaml").symlink_to(tmp_path / "secret/a.yaml")
    (directory / "folder").symlink_to(tmp_path / "secret")
    os.mkfifo(directory / "pipe.yaml")
    look = look_at(directory, recursive=True)
    assert look.files == {}
    assert "a symbolic link" in look.refused["link.yaml"]
    assert "a symbolic link" in look.refused["folder"]
    assert "no regular file" in look.refused["pipe.yaml"]


def test_a_file_that_became_a_link_after_the_look_is_not_opened(directory: Path, tmp_path: Path) -> None:
    (directory / "a.yaml").write_text("mine")
    (tmp_path / "shadow").write_text("secret")
    file = only(directory)
    (directory / "a.yaml").unlink()
    (directory / "a.yaml").symlink_to(tmp_path / "shadow")
    with pytest.raises(OSError, match="symbolic links"), open_whole(directory, file):
        raise AssertionError("opened")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_directory_that_others_may_write_to_is_not_read(directory: Path, mode: int) -> None:
    directory.chmod(mode)
    with pytest.raises(NotTrusted, match="chmod go-w"):
        look_at(directory, recursive=False)


def test_a_file_counts_once_two_looks_find_it_the_same(directory: Path) -> None:
    settled = SettledFiles()
    path = directory / "disk.img"
    path.write_bytes(b"1")
    assert settled.choose_settled(look_at(directory, recursive=False)) == []
    path.write_bytes(b"12")
    assert settled.choose_settled(look_at(directory, recursive=False)) == []
    assert [file.name for file in settled.choose_settled(look_at(directory, recursive=False))] == ["disk.img"]


def test_an_old_time_on_a_new_content_does_not_hide_the_change(directory: Path) -> None:
    settled = SettledFiles()
    path = directory / "disk.img"
    path.write_bytes(b"old")
    settled.choose_settled(look_at(directory, recursive=False))
    before = path.stat()
    path.write_bytes(b"new")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert settled.choose_settled(look_at(directory, recursive=False)) == []


def test_a_file_that_somebody_still_writes_to_is_left_alone(directory: Path) -> None:
    path = directory / "disk.img"
    with path.open("wb") as writer:
        writer.write(b"half")
        writer.flush()
        with pytest.raises(NotYet), open_whole(directory, only(directory)):
            raise AssertionError("opened")
    with open_whole(directory, only(directory)) as opened:
        assert compute_digest(opened, never) == "sha256:" + hashlib.sha256(b"half").hexdigest()


def test_a_file_that_changes_while_it_is_read_is_read_again_later(directory: Path) -> None:
    path = directory / "disk.img"
    path.write_bytes(b"first")
    with pytest.raises(NotYet), open_whole(directory, only(directory)):
        path.write_bytes(b"second")
