"""A container's last word is kept with how it ended, within bounds."""

from __future__ import annotations

from pathlib import Path

from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_state import Ended, look_at_container
from kvedge.standalone.agent.container.termination_message import make_termination_mount, read_termination_message


def test_a_container_may_write_its_last_word(tmp_path: Path) -> None:
    files = PodFiles(tmp_path).container("worker")
    mount = make_termination_mount(files, "/dev/termination-log")
    assert (mount["source"], mount["target"], mount["read_only"]) == (
        str(files.termination), "/dev/termination-log", False,
    )  # fmt: skip
    assert files.termination.stat().st_mode & 0o777 == 0o666


def test_a_new_start_forgets_the_last_word(tmp_path: Path) -> None:
    files = PodFiles(tmp_path).container("worker")
    make_termination_mount(files, "/x")
    files.termination.write_text("before")
    make_termination_mount(files, "/x")
    assert read_termination_message(files) == ""


def test_a_long_last_word_is_cut(tmp_path: Path) -> None:
    files = PodFiles(tmp_path).container("worker")
    make_termination_mount(files, "/x")
    files.termination.write_bytes(b"\xff" * 10_000)
    assert len(read_termination_message(files)) == 4096


def test_without_a_file_there_is_no_word(tmp_path: Path) -> None:
    assert read_termination_message(PodFiles(tmp_path).container("worker")) == ""


def test_the_last_word_is_told_with_the_end(tmp_path: Path) -> None:
    files = PodFiles(tmp_path).container("worker")
    make_termination_mount(files, "/x")
    files.termination.write_text("no space")
    # A record of another boot: the container is over, and nobody knows how.
    files.record.write_text(
        '{"boot_id": "old", "pid": 1, "start_time": 1, "holder": 1, "holder_start_time": 1, "started_at": 1.0, '
        '"failed": ""}'
    )
    state = look_at_container(files, "new")
    assert isinstance(state, Ended)
    assert state.exit.message == "no space"
