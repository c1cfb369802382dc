"""One server's event loop in a thread of its own: the start, the watch over it, and the way down.

Used by the api role's and the relay's HTTPS server and by the embedded API. What runs in the loop is a coroutine of
theirs; this starts the thread, says whether the loop still turns, and asks the coroutine to end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeAlias

from aiohttp import web

from kvedge.runtime.heartbeat import Heartbeat, LoopPulse

log = logging.getLogger(__name__)

# Awaited by what serves once it does: comes back when it is to end.
Serving: TypeAlias = Callable[[], Awaitable[None]]
Serve: TypeAlias = Callable[[Serving], Awaitable[None]]


class LoopThread:
    """Runs one coroutine at a time, from :meth:`start` to :meth:`stop`."""

    def __init__(self, name: str, what: str) -> None:
        """`name` is the thread's; `what` is how a failure calls its event loop."""
        self.heartbeat = Heartbeat(what)
        self._name = name
        self._thread: threading.Thread | None = None
        # The newest one; it may have ended.
        self.loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._broken: str | None = None

    def start(self, serve: Serve, seconds: float | None = None, at_end: Callable[[], None] = lambda: None) -> None:
        """Return when it serves; `at_end` is called in the thread once `serve` has ended, however it did.

        Raises:
            TimeoutError: when it does not serve within `seconds`.
            Exception: what `serve` raised before it served; the thread has ended then.
        """
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(serve, at_end, started), name=self._name, daemon=True)
        self._thread.start()
        try:
            started.result(seconds)
        except BaseException:
            if started.done():
                self._thread.join()
            raise

    def stop(self, seconds: float) -> bool:
        """Ask the coroutine to end, and wait; false when it does not. Nothing happens when none runs."""
        thread, self._thread = self._thread, None
        if thread is None:
            return True
        if self.loop is not None and self._stopping is not None:
            # The loop may have ended by itself just now.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._stopping.set)
        thread.join(seconds)
        return not thread.is_alive()

    @property
    def is_started(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._thread is not None

    def failure(self) -> str | None:
        """Why it no longer serves, or None while it does, or was not to."""
        if self._broken is not None or self._thread is None:
            return self._broken
        return self.heartbeat.failure() if self._thread.is_alive() else f"{self.heartbeat.name} has ended"

    def _run(self, serve: Serve, at_end: Callable[[], None], started: Future[None]) -> None:
        try:
            with asyncio.Runner() as runner:
                try:
                    runner.run(self._main(serve, started))
                finally:
                    # Before the runner waits for the threads of the loop's executor, which may hang in the disk.
                    at_end()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
                return
            # The runner of services asks for it and stops the role with it.
            log.exception("server failed", extra={"facts": {"service": self._name}})
            self._broken = f"{type(error).__name__}: {error}"

    async def _main(self, serve: Serve, started: Future[None]) -> None:
        self.loop = asyncio.get_running_loop()
        self._stopping = stopping = asyncio.Event()
        pulse = LoopPulse(self.heartbeat, self.loop)
        pulse.start()

        async def serve_until_stop() -> None:
            started.set_result(None)
            try:
                await stopping.wait()
            finally:
                # The way down has its own time-outs.
                pulse.stop()

        await serve(serve_until_stop)


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that has taken a TCP address; port 0 takes a free one.

    Raises:
        OSError: when it is in use or not ours to take.
    """
    taken = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
    except OSError:
        taken.close()
        raise
    return taken


def sockets_of(server: web.Server) -> list[socket.socket]:
    """The sockets of a server's connections."""
    transports = [connection.transport for connection in server.connections]
    # A connection that has just been lost is still in the list, and has no socket any more.
    found = [transport.get_extra_info("socket") for transport in transports if transport is not None]
    return [connected for connected in found if connected is not None]


async def wait_closed(sockets: Sequence[socket.socket], seconds: float) -> None:
    """Wait so long for connections that are ending: a loop that ends meanwhile would leave their sockets behind."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while any(connected.fileno() != -1 for connected in sockets):
                await asyncio.sleep(0.005)
