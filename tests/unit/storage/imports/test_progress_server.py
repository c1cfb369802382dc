# Tests: kvedge/storage/imports/import_progress.py
"""What a worker tells of its progress, and to whom."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.progress_server import ProgressServer


@pytest.fixture
def served() -> Iterator[tuple[ImportProgress, int]]:
    progress = ImportProgress()
    server = ProgressServer(progress, 0, "127.0.0.1")
    server.start()
    yield progress, server.port
    server.stop()


def ask(port: int, path: str = "/progress") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_progress_is_told_with_two_digits(served: tuple[ImportProgress, int]) -> None:
    progress, port = served
    assert ask(port) == (200, b'{"progress": "0.00%"}')
    progress.expect(3000)
    progress.reach(1000)
    assert ask(port) == (200, b'{"progress": "33.33%"}')
    progress.reach(3000)
    assert ask(port) == (200, b'{"progress": "99.99%"}')
    progress.complete()
    assert ask(port) == (200, b'{"progress": "100.00%"}')


def test_nothing_else_is_there(served: tuple[ImportProgress, int]) -> None:
    assert ask(served[1], "/other")[0] == 404


def test_a_caller_that_sends_too_much_or_nothing_is_followed_by_the_next(served: tuple[ImportProgress, int]) -> None:
    with socket.create_connection(("127.0.0.1", served[1])) as rude:
        rude.sendall(b"x" * 5000)
        assert ask(served[1])[0] == 200
    with socket.create_connection(("127.0.0.1", served[1])):
        pass
    assert ask(served[1])[0] == 200
