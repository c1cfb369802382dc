"""A line between a browser and a console that can be cut: for tests of what pages do without it.

Used by the tests of this tier. The browser knows the console by its own address: it is led here by a rule of its
resolver.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

_PIECE = 1 << 16


class BreakableLine:
    """Hands on what comes; `rule` is for the browser, which opens `link`."""

    def __init__(self, link: str) -> None:
        target = urlsplit(link)
        assert target.port is not None
        self.link = link.replace(str(target.hostname), "localhost", 1)
        self.rule = ""
        self._target = target.port
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()

    @contextlib.asynccontextmanager
    async def laid(self) -> AsyncIterator[None]:
        """It can be used."""
        server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.rule = f"--host-resolver-rules=MAP localhost:{self._target} 127.0.0.1:{port}"
        try:
            yield
        finally:
            server.close()
            self.cut()
            await asyncio.sleep(0)

    def cut(self) -> None:
        """Break all connections; new ones get nowhere."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        """It can be used again."""
        self._is_cut = False

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        ends = {writer, far_writer}
        self._writers |= ends
        try:
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
