"""One HTTPS server in an event loop of its own thread.

Used by the api role and by the handler's relay. The loop's thread is the only one that touches connections; calls that
block run in a small pool of threads. Never imported by a launcher: aiohttp would be a third of its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from kvedge.runtime.serving.connection_acceptor import ConnectionAcceptor
from kvedge.runtime.serving.connection_bounds import KNOWS, ConnectionBounds
from kvedge.runtime.serving.loop_thread import LoopThread, Serving, bind_socket, sockets_of, wait_closed
from kvedge.runtime.tls.rotating_tls import RotatingTls

_STOP_SECONDS: Final = 5.0
_GOODBYE_SECONDS: Final = 1.0
_START_SECONDS: Final = 10.0
# Calls to the API server under way at once; more wait their turn.
_BLOCKING_CALLS: Final = 16


class ServerError(Exception):
    """The server does not serve; the text says why and what to do."""


def split_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`; IPv6 hosts in brackets, or bare, as Kubernetes tells a Pod its host's address.

    Raises:
        ServerError: when it is not that.
    """
    bare, _, last = text.rpartition(":")
    try:
        parts = urlsplit(f"//[{bare}]:{last}" if ":" in bare and not bare.startswith("[") else f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ServerError(f"{text} is not host:port: {error}") from error
    if not host or port is None:
        raise ServerError(f"{text} is not host:port, such as 127.0.0.1:0 or [::1]:8443")
    return host, port


class HttpsServer:
    """Serves an application at `host:port` until it is stopped; port 0 takes a free one."""

    def __init__(self, host: str, port: int, name: str) -> None:
        self._host = host
        self._port = port
        self._name = name
        self._loop = LoopThread(f"{name}-server", f"the event loop of the {name} server")
        self._socket: socket.socket | None = None

    @property
    def port(self) -> int:
        """The port that it listens on, once bound."""
        return int(self._listening_socket().getsockname()[1])

    def bind(self) -> None:
        """Take the port.

        Raises:
            ServerError: when it is in use or not ours to take.
        """
        try:
            taken = bind_socket(self._host, self._port)
            taken.listen()
        except OSError as error:
            raise ServerError(
                f"cannot listen on {self._host}:{self._port}: {error.strerror}; choose another address"
            ) from error
        self._socket = taken

    def start(self, tls: RotatingTls, make_application: Callable[[], web.Application]) -> None:
        """Serve; returns when connections are taken. The application is made inside the event loop.

        Raises:
            ServerError: when it cannot.
        """
        if self._socket is None:
            self.bind()
        try:
            self._loop.start(partial(self._serve, tls, make_application), _START_SECONDS)
        except TimeoutError as error:
            raise ServerError("the server did not start: no answer") from error
        except Exception as error:
            raise ServerError(f"the server did not start: {type(error).__name__}: {error}") from error

    def stop(self) -> None:
        """End all connections and the thread; nothing happens when it does not run."""
        self._loop.stop(_STOP_SECONDS * 2)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def failure(self) -> str | None:
        """Why it no longer serves, or None while it does."""
        return self._loop.failure()

    def _listening_socket(self) -> socket.socket:
        assert self._socket is not None, "not bound yet"
        return self._socket

    async def _serve(self, tls: RotatingTls, make_application: Callable[[], web.Application], serving: Serving) -> None:
        loop = asyncio.get_running_loop()
        pool = ThreadPoolExecutor(_BLOCKING_CALLS, thread_name_prefix=f"{self._name}-call")
        loop.set_default_executor(pool)
        application = make_application()
        bounds = ConnectionBounds(application.get(KNOWS))
        application.middlewares.insert(0, bounds.watch)
        runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_STOP_SECONDS,
            keepalive_timeout=75.0,
        )
        await runner.setup()
        assert runner.server is not None
        acceptor = ConnectionAcceptor(
            self._listening_socket(), tls.current, runner.server, bounds.give_one_up, bounds.take_in
        )
        acceptor.start()
        try:
            await serving()
        finally:
            await acceptor.stop()
            bounds.close()
            sockets = sockets_of(runner.server)
            await runner.cleanup()
            await _abandon(sockets)
            pool.shutdown(wait=False, cancel_futures=True)


async def _abandon(sockets: Sequence[socket.socket]) -> None:
    """Closing TLS waits for the peer's goodbye, which it is not given here.

    Not by the transports' abort(): Python 3.11 fails there for one that was closed twice.
    """
    for peer in sockets:
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)
    await wait_closed(sockets, _GOODBYE_SECONDS)
