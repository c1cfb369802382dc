"""One HTTPS server in an event loop of its own thread.

Used by the api role and by the handler's relay. The loop's thread is the only one that touches connections; calls that
block run in a small pool of threads. Never imported by a launcher: aiohttp would be a third of its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from kvedge.runtime.heartbeat import Heartbeat, LoopPulse
from kvedge.runtime.serving.connection_acceptor import ConnectionAcceptor
from kvedge.runtime.serving.connection_bounds import ConnectionBounds
from kvedge.runtime.tls.rotating_tls import RotatingTls

log = logging.getLogger(__name__)

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


def join_address(host: str, port: int) -> str:
    """`host:port`, as :func:`split_address` takes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HttpsServer:
    """Serves an application at `host:port` until it is stopped; port 0 takes a free one."""

    def __init__(self, host: str, port: int, name: str) -> None:
        self._host = host
        self._port = port
        self._tls: RotatingTls | None = None
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket: socket.socket | None = None
        self._served = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._broken: str | None = None
        self._heartbeat = Heartbeat(f"the event loop of the {name} server")

    @property
    def port(self) -> int:
        """The port that it listens on, once bound."""
        assert self._socket is not None, "not bound yet"
        return int(self._socket.getsockname()[1])

    def bind(self) -> None:
        """Take the port.

        Raises:
            ServerError: when it is in use or not ours to take.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((self._host, self._port))
            listening.listen()
        except OSError as error:
            listening.close()
            raise ServerError(
                f"cannot listen on {self._host}:{self._port}: {error.strerror}; choose another address"
            ) from error
        self._socket = listening

    def start(self, tls: RotatingTls, make_application: Callable[[], web.Application]) -> None:
        """Serve; returns when connections are taken. The application is made inside the event loop.

        Raises:
            ServerError: when it cannot.
        """
        if self._socket is None:
            self.bind()
        self._tls = tls
        self._thread = threading.Thread(
            target=self._run, args=(make_application,), name=f"{self._name}-server", daemon=True
        )
        self._thread.start()
        if not self._served.wait(_START_SECONDS) or self._broken is not None:
            raise ServerError(f"the server did not start: {self._broken or 'no answer'}")

    def stop(self) -> None:
        """End all connections and the thread; nothing happens when it does not run."""
        if self._thread is not None and self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_STOP_SECONDS * 2)
            self._thread = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def failure(self) -> str | None:
        """Why it no longer serves, or None while it does."""
        if self._broken is not None or self._thread is None:
            return self._broken
        return self._heartbeat.failure() if self._thread.is_alive() else "the server's thread has ended"

    def _run(self, make_application: Callable[[], web.Application]) -> None:
        try:
            asyncio.run(self._serve(make_application))
        except Exception as error:
            # The runner of services asks for it and stops the role with it.
            log.exception("server failed", extra={"facts": {"service": self._name}})
            self._broken = f"{type(error).__name__}: {error}"
        finally:
            self._served.set()

    async def _serve(self, make_application: Callable[[], web.Application]) -> None:
        assert self._socket is not None
        assert self._tls is not None
        loop = asyncio.get_running_loop()
        pool = ThreadPoolExecutor(_BLOCKING_CALLS, thread_name_prefix=f"{self._name}-call")
        loop.set_default_executor(pool)
        self._stopping = asyncio.Event()
        self._loop = loop
        pulse = LoopPulse(self._heartbeat, loop)
        pulse.start()
        application, bounds = make_application(), ConnectionBounds()
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
            self._socket, self._tls.current, runner.server, bounds.give_one_up, bounds.take_in
        )
        acceptor.start()
        try:
            self._served.set()
            await self._stopping.wait()
        finally:
            # The way down has its own time-outs.
            pulse.stop()
            await acceptor.stop()
            bounds.close()
            connections = list(runner.server.connections)
            transports = [connection.transport for connection in connections if connection.transport is not None]
            sockets = [transport.get_extra_info("socket") for transport in transports]
            await runner.cleanup()
            await _abandon(sockets)
            pool.shutdown(wait=False, cancel_futures=True)


async def _abandon(sockets: Sequence[socket.socket]) -> None:
    """Closing TLS waits for the peer's goodbye; a loop that ends meanwhile would leave sockets behind.

    Not by the transports' abort(): Python 3.11 fails there for one that was closed twice.
    """
    for peer in sockets:
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            while any(peer.fileno() != -1 for peer in sockets):
                await asyncio.sleep(0.01)
