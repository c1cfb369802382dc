"""Logs that a guest can make grow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.log_files import FAST, LARGEST_SERIAL, BoundedLogs, cut_log, log_files


def test_a_log_that_grew_is_emptied_and_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("ab") as writer:
        writer.write(b"old " * 1000 + b"the end\n")
        writer.flush()
        assert cut_log(str(path), largest=100)
        # Who appends goes on at the beginning.
        writer.write(b"new\n")
    assert path.read_bytes() == b"new\n"
    kept = (tmp_path / "log.1").read_bytes()
    assert len(kept) == 100
    assert kept.endswith(b"the end\n")


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100)
    assert not cut_log(str(path), largest=100)
    assert [entry.name for entry in tmp_path.iterdir()] == ["log"]


def test_what_a_guest_wrote_is_kept_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written = bytes(range(256)) * 8
    path.write_bytes(written)
    assert cut_log(str(path), largest=1024)
    assert (tmp_path / "log.1").read_bytes() == written[-1024:]


def test_a_disk_without_room_costs_the_last_part_and_not_the_cutting(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 200)
    # Nothing can be written in the place of what is staged.
    (tmp_path / "log.new").mkdir()
    with pytest.raises(IsADirectoryError):
        cut_log(str(path), largest=100)
    assert path.read_bytes() == b""


def options_of(root: Path) -> LauncherOptions:
    options = LauncherOptions(namespace="n", name="v", uid="u", root=str(root))
    os.makedirs(options.run_directory)
    return options


def test_only_logs_that_are_there_are_looked_after(tmp_path: Path) -> None:
    options = options_of(tmp_path)
    assert log_files(options) == {}
    assert not BoundedLogs(options).look_after()
    folder = Path(options.libvirt_root, "log/qemu")
    folder.mkdir(parents=True)
    Path(options.run_directory, "virt-serial0-log").touch()
    (folder / "n_v.log").touch()
    assert [Path(path).name for path in log_files(options)] == ["virt-serial0-log", "n_v.log"]


def test_a_guest_that_writes_fast_is_looked_at_again_soon(tmp_path: Path) -> None:
    options = options_of(tmp_path)
    logs, serial = BoundedLogs(options), Path(options.run_directory, "virt-serial0-log")
    serial.write_bytes(b"x" * 1000)
    assert not logs.look_after()
    with serial.open("ab") as guest:
        guest.write(b"x" * FAST)
        guest.flush()
        assert not logs.look_after()
        guest.write(b"x" * LARGEST_SERIAL)
        guest.flush()
        assert logs.look_after()
        assert serial.stat().st_size == 0
        assert Path(f"{serial}.1").stat().st_size == LARGEST_SERIAL
        guest.write(b"x" * (FAST + 1))
        guest.flush()
        assert logs.look_after()
    assert not logs.look_after()
