"""Marks that end with the process that holds them, in a directory that somebody else can write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.launcher.shares.share_marks import LONGEST_REASON, hold, is_held, read_reason, write_reason


def test_a_mark_is_held_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "mark")
    assert not is_held(path)
    descriptor = hold(path)
    assert is_held(path)
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)
    assert not is_held(path)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "mark").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        hold(str(tmp_path / "mark"), wait=True)
    assert not target.exists()
    assert not is_held(str(tmp_path / "mark"))


def test_a_reason_is_read_as_it_was_left_and_cut(tmp_path: Path) -> None:
    path = str(tmp_path / "a.refused")
    assert read_reason(path) == ""
    write_reason(path, "x" * 10_000)
    assert read_reason(path) == "x" * LONGEST_REASON


def test_nothing_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_reason(str(tmp_path / "pipe")) == ""
    assert not is_held(str(tmp_path / "pipe"))
