"""A TCP proxy that can do to connections what networks do: reset them, or carry nothing any more without a word.

Stands between two of our roles in tests; runs an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable

_CHUNK = 65536


class TearingProxy:
    """Forwards a port of 127.0.0.1 to `host:port`; use as a context."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tearing-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self.port = 0

    def __enter__(self) -> TearingProxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *error: object) -> None:
        self.tear()
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def connections(self) -> int:
        """How many are forwarded now."""
        return len(self._writers) // 2

    def tear(self) -> None:
        """Reset all connections, in both directions."""
        self._call(self._tear)

    def freeze(self) -> None:
        """Carry nothing: what arrives stays unread."""
        self._call(self._flowing.clear)

    def thaw(self) -> None:
        """Go on."""
        self._call(self._flowing.set)

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (function(), done.set()))
        assert done.wait(10)

    async def _listen(self) -> None:
        self._flowing.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _tear(self) -> None:
        for writer in self._writers:
            connection = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
            pair = {writer, there_writer}
            self._writers |= pair
            try:
                await asyncio.gather(self._copy(reader, there_writer), self._copy(there_reader, writer))
            finally:
                self._writers -= pair
                for end in pair:
                    end.transport.abort()
        except OSError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await self._flowing.wait()
            data = await reader.read(_CHUNK)
            await self._flowing.wait()
            if not data:
                raise ConnectionResetError
            writer.write(data)
            await writer.drain()
