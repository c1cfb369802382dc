"""Reaching into a Pod's volumes, where a guest that broke out may have prepared something."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.handler.launchers.launcher_socket import (
    NotThere,
    Unexpected,
    hold_listener,
    hold_open_beneath,
    open_socket,
    read_file_beneath,
)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "launcher-sock"))
        server.listen()
        yield server


@pytest.fixture
def found(tmp_path: Path, listener: socket.socket) -> Iterator[int]:
    descriptor = open_socket(tmp_path, "launcher-sock")
    yield descriptor
    os.close(descriptor)


def test_a_process_of_the_node_is_never_taken_for_a_launcher(tmp_path: Path, found: int) -> None:
    with pytest.raises(Unexpected, match=f"process {os.getpid()} in the node's own pid namespace"):
        hold_listener(found, tmp_path)


def test_a_socket_that_nobody_listens_on_any_more_is_not_there(
    tmp_path: Path, found: int, listener: socket.socket
) -> None:
    listener.close()
    with pytest.raises(NotThere):
        hold_listener(found, tmp_path)


def test_a_pod_whose_volume_is_gone_has_no_launcher(tmp_path: Path, found: int) -> None:
    with pytest.raises(NotThere, match="gone is not there"):
        hold_listener(found, tmp_path / "gone")


def test_what_is_not_there_yet_is_told_apart_from_what_should_not_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotThere):
        open_socket(tmp_path, "launcher-sock")
    with pytest.raises(NotThere):
        open_socket(tmp_path / "none", "launcher-sock")


def test_a_link_to_another_socket_is_refused(tmp_path: Path, listener: socket.socket) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "launcher-sock").symlink_to(tmp_path / "launcher-sock")
    with pytest.raises(Unexpected, match="no socket"):
        open_socket(volume, "launcher-sock")


def test_a_link_on_the_way_is_refused(tmp_path: Path, listener: socket.socket) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "run").symlink_to(tmp_path)
    with pytest.raises(Unexpected, match="behind a link"):
        open_socket(volume, "run/launcher-sock")


@pytest.mark.parametrize("path", ["../launcher-sock", "./launcher-sock", "a//b"])
def test_a_path_that_leaves_its_volume_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises((Unexpected, NotThere)), hold_open_beneath(tmp_path / "a", path):
        raise AssertionError("opened")


def test_a_file_is_read_up_to_its_limit_only(tmp_path: Path) -> None:
    (tmp_path / "final.json").write_bytes(b"x" * 100)
    assert len(read_file_beneath(tmp_path, "final.json", 100)) == 100
    with pytest.raises(Unexpected, match="longer than 99"):
        read_file_beneath(tmp_path, "final.json", 99)


def test_a_pipe_in_the_place_of_a_file_does_not_hang_the_handler(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "final.json")
    with pytest.raises(Unexpected, match="no regular file"):
        read_file_beneath(tmp_path, "final.json", 100)


def test_a_listener_whose_queue_is_full_is_not_waited_for(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        descriptor = os.open(tmp_path, os.O_PATH)
        stack.callback(os.close, descriptor)
        listening.bind(f"/proc/self/fd/{descriptor}/launcher-sock")
        listening.listen(0)
        # More than fit into the queue; who comes too late for it is refused.
        for _ in range(8):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(f"/proc/self/fd/{descriptor}/launcher-sock")
        found = open_socket(tmp_path, "launcher-sock")
        stack.callback(os.close, found)
        with pytest.raises(NotThere) as refused:
            hold_listener(found, tmp_path)
        assert isinstance(refused.value.__cause__, BlockingIOError), "the kernel was not waited for"
