"""The shell around stream_core: moves bytes between two ends in an event loop until one of them is done.

Used by the handler's relay and by the api role. Bounded: one chunk is under way in each direction, and reading stops
while the other side is slow. Every task that it starts has ended when it returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from kvedge.runtime.serving.stream_core import PING_SECONDS, Liveness

CHUNK: Final = 16384
# How long the other side gets to take the last that was written, unless said otherwise: less than the next viewer of a
# guest waits for the one before.
_FLUSH_SECONDS: Final = 2.0


class Farewell(Struct, frozen=True):
    """Why a stream ends: a websocket close code, a reason of at most 123 bytes, and bytes to show before."""

    code: int = 1000
    reason: str = ""
    last_words: bytes = b""


ENDED: Final = Farewell(1000, "the guest's end was closed")
LEFT: Final = Farewell(1000, "the viewer left")
SILENT: Final = Farewell(1001, "the viewer did not answer")
FAILED: Final = Farewell(1011, "kvedge failed; its log says why")
GOING_DOWN: Final = Farewell(1001, "kvedge is being restarted")


class Viewer(Protocol):
    """The side that may fall silent: a websocket."""

    async def receive(self) -> bytes | None:
        """The next data; empty for a sign of life; None at the end."""

    async def send(self, data: bytes) -> None:
        """Send, waiting while the other side is slow."""

    async def ping(self) -> None:
        """Ask for a sign of life."""

    async def close(self, farewell: Farewell) -> None:
        """End it."""


class Source(Protocol):
    """The side that bytes are read from and written to: a socket, or a websocket to the next hop."""

    @property
    def farewell(self) -> Farewell:
        """Why :meth:`read` has ended, for the viewer."""

    async def read(self) -> bytes | None:
        """The next data, or None at the end."""

    async def write(self, data: bytes) -> None:
        """Write, waiting while the other side is slow."""

    async def ping(self) -> None:
        """Show that we are there, when it is somebody who asks."""

    async def close(self) -> None:
        """Give it up, within a few seconds."""


class ConnectionSource:
    """A TCP connection or a unix socket as the source of a stream."""

    farewell = ENDED

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flush_seconds: float = _FLUSH_SECONDS
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._flush_seconds = flush_seconds

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end."""
        return await self._reader.read(CHUNK) or None

    async def write(self, data: bytes) -> None:
        """Write, and wait until the other side has taken most of it."""
        self._writer.write(data)
        await self._writer.drain()

    async def ping(self) -> None:
        """The other side does not understand that; the kernel tells when it ends."""

    async def close(self) -> None:
        """Close it; the other side gets a while to take the last that was written."""
        if self._writer.transport.get_write_buffer_size():
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(self._flush_seconds):
                    await self._writer.wait_closed()
        self._writer.transport.abort()


async def pump(viewer: Viewer, source: Source, sent_away: asyncio.Future[Farewell]) -> Farewell:
    """Move bytes until one side ends, the viewer falls silent, or `sent_away` is set; then close both.

    Returns:
        Why it ended.
    """
    alive = Liveness(time.monotonic())
    tasks: list[asyncio.Future[Farewell]] = [
        asyncio.ensure_future(_send_to_viewer(viewer, source, alive)),
        asyncio.ensure_future(_send_to_source(viewer, source, alive)),
        asyncio.ensure_future(_keep_alive(viewer, source, alive)),
    ]
    farewell = FAILED
    try:
        done, _ = await asyncio.wait([*tasks, sent_away], return_when=asyncio.FIRST_COMPLETED)
        farewell = sent_away.result() if sent_away in done else _outcome(tasks)
    except asyncio.CancelledError:
        farewell = GOING_DOWN
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await source.close()
        await viewer.close(farewell)
    return farewell


async def _send_to_source(viewer: Viewer, source: Source, alive: Liveness) -> Farewell:
    while (data := await viewer.receive()) is not None:
        alive.note_heard(time.monotonic())
        if data:
            alive.stop_listening(time.monotonic())
            await source.write(data)
            alive.listen(time.monotonic())
    return LEFT


async def _send_to_viewer(viewer: Viewer, source: Source, alive: Liveness) -> Farewell:
    while (data := await source.read()) is not None:
        alive.begin_sending(time.monotonic())
        await viewer.send(data)
        alive.end_sending(time.monotonic())
    return source.farewell


async def _keep_alive(viewer: Viewer, source: Source, alive: Liveness) -> Farewell:
    while True:
        await asyncio.sleep(alive.next_look(time.monotonic()))
        match alive.judge(time.monotonic()):
            case "dead":
                return SILENT
            case "ping":
                await _ping(viewer, source, alive)
            case "nothing":
                continue


async def _ping(viewer: Viewer, source: Source, alive: Liveness) -> None:
    """Both sides, but for one that takes nothing: a ping would only wait behind what it has not taken."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PING_SECONDS):
            if not alive.is_sending:
                await viewer.ping()
            if not alive.is_deaf:
                await source.ping()


def _outcome(tasks: Sequence[asyncio.Future[Farewell]]) -> Farewell:
    """The first that ended and can say why; a connection that breaks under our hands is an end like any other."""
    done = [task for task in tasks if task.done()]
    errors = [error for task in done if (error := task.exception()) is not None]
    for error in errors:
        if not isinstance(error, OSError):
            raise error
    return next((task.result() for task in done if task.exception() is None), LEFT)
