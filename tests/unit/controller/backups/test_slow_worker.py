# Tests: kvedge/controller/backups/record_client.py
"""The record of a backup, fetched from a worker, and from a Pod that is none: slow, endless, broken off."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kvedge.controller.backups.record_client import fetch_result
from kvedge.resources.codec import DecodeError, encode_json
from kvedge.resources.types.protection.backup_job import BackupRecord
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.progress_server import ProgressServer
from tests.unit.controller.backups.backup_world import a_record


@contextlib.contextmanager
def pod(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A listener that answers one call in its way; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                caller, _ = listener.accept()
                with caller:
                    caller.recv(4096)
                    answer(caller)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
    thread.join(10)


def test_a_worker_hands_out_its_record_to_whom_has_the_token() -> None:
    server = ProgressServer(ImportProgress(), 0, "127.0.0.1")
    server.start()
    try:
        assert fetch_result(BackupRecord, "127.0.0.1", "t0ken", server.port) is None
        server.hand_out(encode_json(a_record()), "t0ken")
        assert fetch_result(BackupRecord, "127.0.0.1", "t0ken", server.port) == a_record()
        assert fetch_result(BackupRecord, "127.0.0.1", "other", server.port) is None
    finally:
        server.stop()


def test_a_pod_that_sends_a_byte_now_and_then_holds_nobody_up() -> None:
    def drip(caller: socket.socket) -> None:
        caller.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            caller.sendall(b" ")
            time.sleep(0.05)

    begun = time.monotonic()
    with pod(drip) as port:
        assert fetch_result(BackupRecord, "127.0.0.1", "t", port, seconds=0.4) is None
    assert time.monotonic() - begun < 5


def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    def pour(caller: socket.socket) -> None:
        while True:
            caller.sendall(b"x" * 65536)

    with pod(pour) as port:
        assert fetch_result(BackupRecord, "127.0.0.1", "t", port, seconds=20) is None


@pytest.mark.parametrize("token", ["", "a/b", "t\r\nX: y"])
def test_what_is_no_token_is_not_sent(token: str) -> None:
    assert fetch_result(BackupRecord, "127.0.0.1", token, 1) is None


def test_an_answer_that_breaks_off_is_none_and_one_that_is_no_record_is_told() -> None:
    def answer(text: bytes) -> Callable[[socket.socket], None]:
        return lambda caller: caller.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\n" + text)

    with pod(answer(b"{")) as port:
        assert fetch_result(BackupRecord, "127.0.0.1", "t", port) is None
    with pod(answer(b"{what?}")) as port, pytest.raises(DecodeError):
        fetch_result(BackupRecord, "127.0.0.1", "t", port)
