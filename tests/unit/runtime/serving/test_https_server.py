"""What clients of a role's server may take of it, and that none is left behind when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from aiohttp import web

from kvedge.runtime.serving import connection_book, connection_bounds
from kvedge.runtime.serving.https_server import HttpsServer
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest
from kvedge.runtime.tls.rotating_tls import RotatingTls
from tests.support.raw_http import is_open
from tests.support.waiting import wait_until

LOCAL = "127.0.0.1"
NOW = datetime.now(UTC)
MATERIAL = CertificateAuthority.create("kvedge-ca", NOW).issue(LeafRequest("kvedge-api", hosts=[LOCAL]), NOW)
ROUNDS = 10
CLIENTS = 3


def says_nothing(port: int) -> None:
    """Connects, and leaves the handshake to the other side until it hangs up."""
    with socket.create_connection((LOCAL, port), 1) as connection:
        connection.settimeout(0.02)
        connection.recv(1)


def shakes_hands(port: int) -> None:
    context = ssl.create_default_context(cadata=MATERIAL.ca.decode())
    with (
        socket.create_connection((LOCAL, port), 1) as connection,
        context.wrap_socket(connection, server_hostname=LOCAL) as secure,
    ):
        secure.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


@contextlib.contextmanager
def callers(port: int, call: Callable[[int], None]) -> Iterator[None]:
    """Clients that call again and again."""
    enough = threading.Event()

    def keep_calling() -> None:
        while not enough.is_set():
            with contextlib.suppress(OSError):
                call(port)

    threads = [threading.Thread(target=keep_calling) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        enough.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("call", [says_nothing, shakes_hands])
def test_no_connection_outlives_the_server(call: Callable[[int], None]) -> None:
    ours = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(ROUNDS):
            server = HttpsServer(LOCAL, 0, "test")
            server.start(RotatingTls(MATERIAL), web.Application)
            ours.append(f"laddr=('{LOCAL}', {server.port})")
            with callers(server.port, call):
                threading.Event().wait(0.05)
                server.stop()
        gc.collect()
    # Python's own client leaves its socket behind when the server hangs up at a certain moment.
    assert [str(item.message) for item in seen if any(name in str(item.message) for name in ours)] == []


def quiet(port: int, count: int) -> list[socket.socket]:
    """Connections that have got through their handshake, and say nothing."""
    context = ssl.create_default_context(cadata=MATERIAL.ca.decode())
    return [
        context.wrap_socket(socket.create_connection((LOCAL, port), 5), server_hostname=LOCAL) for _ in range(count)
    ]


def status_of(connection: socket.socket, path: str = "/") -> int:
    connection.settimeout(10)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return int(connection.recv(4096).split(b" ")[1])


@pytest.fixture
def served() -> Iterator[HttpsServer]:
    """A server that answers, at `/slow` when it is over."""
    over = threading.Event()

    def application() -> web.Application:
        async def slow(_request: web.Request) -> web.Response:
            await asyncio.to_thread(over.wait, 30)
            return web.Response()

        async def quick(_request: web.Request) -> web.Response:
            return web.Response()

        made = web.Application()
        made.add_routes([web.get("/", quick), web.get("/slow", slow)])
        made[connection_bounds.KNOWS] = lambda request: "Cookie" in request.headers
        return made

    server = HttpsServer(LOCAL, 0, "test")
    server.start(RotatingTls(MATERIAL), application)
    yield server
    over.set()
    server.stop()


def test_who_says_nothing_gives_way_to_who_comes_next(served: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_bounds, "MOST_UNKNOWN", 4)
    held = quiet(served.port, 10)
    wait_until(lambda: sum(map(is_open, held)) == 4, "all but four are closed")
    assert list(map(is_open, held)) == [False] * 6 + [True] * 4
    assert status_of(held[-1]) == 200
    for connection in held:
        connection.close()


def test_what_is_at_work_does_not_give_way_at_once(served: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_bounds, "MOST_UNKNOWN", 2)
    held = quiet(served.port, 2)
    for connection in held:
        connection.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    (late,) = quiet(served.port, 1)
    wait_until(lambda: not is_open(late), "one more is refused")
    assert list(map(is_open, held)) == [True, True]
    monkeypatch.setattr(connection_bounds, "_SHORT_SECONDS", 0.0)
    (next_one,) = quiet(served.port, 1)
    assert status_of(next_one) == 200
    wait_until(lambda: sum(map(is_open, held)) == 1, "the one that takes longest has given way")
    for connection in (*held, late, next_one):
        connection.close()


def test_a_connection_without_a_request_is_closed(served: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    (used, unused) = quiet(served.port, 2)
    assert status_of(used) == 200
    monkeypatch.setattr(connection_book, "FIRST_REQUEST_SECONDS", 0.0)
    wait_until(lambda: not is_open(unused), "it is closed")
    assert status_of(used) == 200
    used.close()
    unused.close()


def test_who_has_signed_in_gives_way_to_no_stranger(served: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_bounds, "MOST_UNKNOWN", 2)
    monkeypatch.setattr(connection_bounds, "_SHORT_SECONDS", 0.0)
    (known,) = quiet(served.port, 1)
    known.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\nCookie: mine\r\n\r\n")
    strangers = quiet(served.port, 1)
    strangers[0].sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    strangers += quiet(served.port, 4)
    wait_until(lambda: sum(map(is_open, strangers)) == 2, "all but two of the strangers are closed")
    assert not is_open(strangers[0]), "what it was at counts for nothing"
    assert is_open(known)
    for connection in (known, *strangers):
        connection.close()
