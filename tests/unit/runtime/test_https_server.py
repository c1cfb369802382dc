"""A server that stops while clients come leaves no socket behind."""

from __future__ import annotations

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

from kvedge.runtime.certificates import CertificateAuthority, LeafRequest
from kvedge.runtime.https_server import HttpsServer
from kvedge.runtime.rotating_tls import RotatingTls

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
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(ROUNDS):
            server = HttpsServer(LOCAL, 0, "test")
            server.start(RotatingTls(MATERIAL), web.Application)
            with callers(server.port, call):
                threading.Event().wait(0.05)
                server.stop()
        gc.collect()
    assert [str(item.message) for item in seen] == []
