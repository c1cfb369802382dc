"""A worker is asked for its progress, and believed within bounds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kvedge.controller.datavolumes.workers.progress_client import ask_progress


@contextmanager
def worker(answer: bytes) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(b'HTTP/1.0 200 OK\r\n\r\n{"progress": "12.34%"}', "12.34%", id="a percentage"),
        pytest.param(b'HTTP/1.0 200 OK\r\n\r\n{"progress": "soon"}', "", id="a word"),
        pytest.param(b"", "", id="nothing"),
        pytest.param(b"x" * 5000 + b'{"progress": "1%"}', "", id="more than is read"),
    ],
)
def test_progress_is_a_percentage_or_nothing(answer: bytes, expected: str) -> None:
    with worker(answer) as port:
        assert ask_progress("127.0.0.1", port) == expected


def test_a_worker_that_does_not_listen_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert ask_progress("127.0.0.1", port) == ""
