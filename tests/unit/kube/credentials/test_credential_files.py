"""What counts as a change of a file that credentials are in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.kube.credentials.credential_files import is_changed, read_file_state, states


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.crt"
    path.write_text("first")
    return path


def test_a_file_that_nobody_touches_is_unchanged(file: Path) -> None:
    noted = states([str(file)])
    file.read_text()
    assert not is_changed(noted)


def test_a_file_that_is_replaced_by_one_of_the_same_size_and_time_is_another(file: Path) -> None:
    noted = states([str(file)])
    other = file.with_name("new")
    other.write_text("other")
    found = file.stat()
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.replace(file)
    assert is_changed(noted)


def test_a_file_that_is_written_in_place_is_another(file: Path) -> None:
    noted = states([str(file)])
    inode = file.stat().st_ino
    file.write_text("other")
    os.utime(file, ns=(0, 1))
    assert file.stat().st_ino == inode
    assert is_changed(noted)


def test_a_link_that_points_elsewhere_is_another_file(file: Path) -> None:
    link, second = file.with_name("current.pem"), file.with_name("second.pem")
    second.write_text("other")
    link.symlink_to(file.name)
    noted = states([str(link)])
    link.unlink()
    link.symlink_to(second.name)
    assert is_changed(noted)


def test_a_file_that_comes_or_goes_is_a_change(file: Path) -> None:
    late = file.with_name("late")
    noted = states([str(file), str(late)])
    assert read_file_state(str(late)) is None
    assert not is_changed(noted)
    late.touch()
    assert is_changed(noted)
    noted = states([str(file), str(late)])
    file.unlink()
    assert is_changed(noted)
