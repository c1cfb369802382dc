"""Joins one stream to a guest with one on this computer.

Called by port-forward and vnc. Bytes are held back on each side while the other is slow.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

import aiohttp

from kvedge.client.streams.stream_client import receive

_CHUNK: Final = 64 * 1024
# After our side has ended: a websocket has no half-closed state, so the rest is waited for while it comes.
QUIET_SECONDS: Final = 2.0


async def join_socket(
    stream: aiohttp.ClientWebSocketResponse,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    rest_seconds: float = QUIET_SECONDS,
) -> None:
    """Until either side ends; closes both. After our side's end the rest is waited for while it comes."""
    quiet = Quiet()

    async def send_to_guest() -> None:
        while data := await reader.read(_CHUNK):
            await stream.send_bytes(data)

    async def write_locally() -> None:
        async for data in receive(stream):
            quiet.note_data()
            writer.write(data)
            await writer.drain()

    try:
        await join(send_to_guest(), write_locally(), quiet, rest_seconds)
    finally:
        await stream.close()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


class Quiet:
    """Remembers whether anything has come since it was last asked."""

    def __init__(self) -> None:
        self._has_heard = False

    def note_data(self) -> None:
        """Something has come."""
        self._has_heard = True

    def was_quiet(self) -> bool:
        """Whether nothing has; asking begins anew."""
        found, self._has_heard = not self._has_heard, False
        return found


async def join(
    to_guest: Coroutine[Any, Any, None], to_local: Coroutine[Any, Any, None], quiet: Quiet, rest_seconds: float
) -> None:
    """Run both directions until either ends; `to_local` tells `quiet` whenever something has come."""
    up, down = asyncio.ensure_future(to_guest), asyncio.ensure_future(to_local)
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        while up.done() and not up.exception() and not down.done():
            quiet.was_quiet()
            await asyncio.wait({down}, timeout=rest_seconds)
            if quiet.was_quiet():
                break
    finally:
        for task in (up, down):
            task.cancel()
        results = await asyncio.gather(up, down, return_exceptions=True)
    for result in results:
        # The other side may go at any time: that is an end and no failure.
        if isinstance(result, Exception) and not isinstance(result, ConnectionError | aiohttp.ClientError):
            raise result
