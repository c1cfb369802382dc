"""Joins one stream to a guest with one on this computer: a socket, or standard input and output.

Called by port-forward and vnc. Bytes are held back on each side while the other is slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine
from typing import Any, Final

import aiohttp

from kvedge.client.streams.stream_client import received

_CHUNK: Final = 64 * 1024
_STDIN: Final = 0
_STDOUT: Final = 1
# After our side has ended: a websocket has no half-closed state, so the rest is waited for while it comes.
QUIET_SECONDS: Final = 2.0


async def join_socket(
    stream: aiohttp.ClientWebSocketResponse,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    rest_seconds: float = QUIET_SECONDS,
) -> None:
    """Until either side ends; closes both. After our side's end the rest is waited for while it comes."""
    quiet = _Quiet()

    async def to_guest() -> None:
        while data := await reader.read(_CHUNK):
            await stream.send_bytes(data)

    async def to_local() -> None:
        async for data in received(stream):
            quiet.heard()
            writer.write(data)
            await writer.drain()

    try:
        await _join(to_guest(), to_local(), quiet, rest_seconds)
    finally:
        await stream.close()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def join_stdio(stream: aiohttp.ClientWebSocketResponse) -> None:
    """Standard input and output, until either side ends."""
    quiet = _Quiet()
    typed: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)
    loop = asyncio.get_running_loop()

    def read_all() -> None:
        # Any kind of file may be standard input, and not each can be polled. The thread ends with the process.
        with contextlib.suppress(OSError, RuntimeError):
            while data := os.read(_STDIN, _CHUNK):
                asyncio.run_coroutine_threadsafe(typed.put(data), loop).result()
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(typed.put(b""), loop)

    async def to_guest() -> None:
        while data := await typed.get():
            await stream.send_bytes(data)

    async def to_local() -> None:
        async for data in received(stream):
            quiet.heard()
            await asyncio.to_thread(_write_all, data)

    threading.Thread(target=read_all, name="stdin", daemon=True).start()
    try:
        await _join(to_guest(), to_local(), quiet, QUIET_SECONDS)
    finally:
        await stream.close()


class _Quiet:
    """Whether anything has come since somebody last asked."""

    def __init__(self) -> None:
        self._has_heard = False

    def heard(self) -> None:
        self._has_heard = True

    def was_quiet(self) -> bool:
        found, self._has_heard = not self._has_heard, False
        return found


async def _join(
    to_guest: Coroutine[Any, Any, None], to_local: Coroutine[Any, Any, None], quiet: _Quiet, rest_seconds: float
) -> None:
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


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(_STDOUT, view) :]
