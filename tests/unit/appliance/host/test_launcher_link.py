"""The path that a cluster's controller names for all nodes, and what each node has there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kvedge.appliance.host.launcher_link import LauncherLink, launcher_command, launcher_directories, point_link
from kvedge.runtime.program import program_command, program_directories
from kvedge.runtime.services import ServiceError

DATA = Path("/var/lib/kvedge")


def freeze(monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tree / "kvedge"))


def test_the_built_program_is_named_without_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    freeze(monkeypatch, tmp_path / "data" / ("a" * 64))
    assert launcher_command(DATA) == ["/var/lib/kvedge/launcher/kvedge"]
    assert launcher_directories(DATA) == ["/var/lib/kvedge/launcher"]


def test_a_checkout_is_named_as_it_is_and_needs_no_link(tmp_path: Path) -> None:
    assert launcher_command(DATA) == program_command()
    assert launcher_directories(DATA) == program_directories()
    LauncherLink(tmp_path).start()
    assert os.listdir(tmp_path) == []


def test_each_start_points_the_link_at_the_tree_that_it_runs_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("a" * 64, "b" * 64):
        freeze(monkeypatch, tmp_path / "data" / name)
        LauncherLink(tmp_path).start()
        assert os.readlink(tmp_path / "launcher") == str(tmp_path / "data" / name)


def test_a_swap_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    (tmp_path / ".launcher.new").symlink_to("/nowhere")
    point_link(tmp_path / "launcher", tmp_path / "data")
    assert os.listdir(tmp_path) == ["launcher"]


def test_a_directory_in_its_place_is_told_and_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    freeze(monkeypatch, tmp_path / "data" / ("a" * 64))
    (tmp_path / "launcher").mkdir()
    with pytest.raises(ServiceError, match=f"{tmp_path}/launcher cannot be made: Is a directory"):
        LauncherLink(tmp_path).start()
    assert (tmp_path / "launcher").is_dir()
