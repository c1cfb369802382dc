from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.standalone.agent.container.atomic_files import BadPath, FileContent, write_files


def _file(text: str, mode: int = 0o644) -> FileContent:
    return FileContent(text.encode(), mode)


def test_files_appear_as_the_kubelet_lays_them_out(tmp_path: Path) -> None:
    write_files(tmp_path, {"userdata": _file("a"), "deep/er/key": _file("b", 0o400)}, None)

    assert os.readlink(tmp_path / "userdata") == "..data/userdata"
    assert os.readlink(tmp_path / "deep") == "..data/deep"
    assert (tmp_path / "deep/er/key").read_text() == "b"
    assert (tmp_path / "deep/er/key").stat().st_mode & 0o777 == 0o400
    data = os.readlink(tmp_path / "..data")
    assert data.startswith("..")
    assert (tmp_path / data).is_dir()


def test_a_new_version_replaces_the_old_one_whole(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": _file("1"), "gone": _file("1")}, None)
    before = os.readlink(tmp_path / "..data")
    write_files(tmp_path, {"a": _file("2"), "new": _file("2")}, None)

    assert sorted(os.listdir(tmp_path)) == sorted(["..data", os.readlink(tmp_path / "..data"), "a", "new"])
    assert os.readlink(tmp_path / "..data") != before
    assert (tmp_path / "a").read_text() == "2"


def test_no_files_leave_an_empty_volume(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": _file("1")}, None)
    write_files(tmp_path, {}, None)

    assert [name for name in os.listdir(tmp_path) if not name.startswith("..")] == []


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "..data", "..x/y", "", "a\0b"])
def test_a_path_out_of_the_volume_is_refused_and_nothing_is_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadPath):
        write_files(tmp_path, {"good": _file("1"), path: _file("2")}, None)

    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way_of_a_directory_leaves_the_old_version(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": _file("1")}, None)
    with pytest.raises(OSError, match="a"):
        write_files(tmp_path, {"x": _file("2"), "x/y": _file("3")}, None)

    assert (tmp_path / "a").read_text() == "1"
    assert len([name for name in os.listdir(tmp_path) if name.startswith("..")]) == 2
