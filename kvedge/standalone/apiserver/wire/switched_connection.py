"""A client's connection once both sides use it for something else than HTTP.

Used where a request is answered by 101 and is no websocket of aiohttp's: tunnels to other servers, and SPDY.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any, Final, cast

from aiohttp import web

from kvedge.runtime.serving.websocket_viewer import hang_up

# So many bytes may wait for whoever takes them before the client is paused.
_WAITING_LIMIT: Final = 256 * 1024


class _Switched(web.StreamResponse):
    """A 101 whose body is whatever the two sides say to each other, so it has no length and no chunks."""

    _length_check = False


class ClientBytes:
    """What aiohttp hands the client's bytes to once the connection is no longer HTTP."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._waiting = bytearray()
        self._arrived = asyncio.Event()
        self._ended = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes as they come: aiohttp calls it."""
        self._waiting += data
        if len(self._waiting) > _WAITING_LIMIT:
            self._transport.pause_reading()
        self._arrived.set()
        return False, b""

    def feed_eof(self) -> None:
        """Nothing more comes: aiohttp calls it."""
        self._ended = True
        self._arrived.set()

    async def read(self) -> bytes:
        """What has come by now, as soon as that is something; empty once the client has ended."""
        while not self._waiting and not self._ended:
            self._arrived.clear()
            await self._arrived.wait()
        data, self._waiting = bytes(self._waiting), bytearray()
        if len(data) > _WAITING_LIMIT and not self._transport.is_closing():
            self._transport.resume_reading()
        return data


class SwitchedConnection:
    """One connection; `response` is the answer to its request."""

    def __init__(self, request: web.BaseRequest, response: web.StreamResponse, incoming: ClientBytes) -> None:
        self.response = response
        self._request = request
        self._incoming = incoming
        transport = request.transport
        self._socket: socket.socket | None = None if transport is None else transport.get_extra_info("socket")

    async def read(self) -> bytes:
        """The client's next bytes; empty at the end."""
        return await self._incoming.read()

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while too many are on their way.

        Raises:
            ConnectionError: the client has gone.
        """
        await self.response.write(data)

    async def close(self, seconds: float) -> None:
        """Let the client take the bytes on their way. A client that takes none is hung up on, or it would hold us."""
        self.response.force_close()
        try:
            async with asyncio.timeout(seconds):
                await self._request.writer.drain()
        except (ConnectionError, TimeoutError):
            hang_up(self._socket)


async def switch_connection(request: web.BaseRequest, headers: Iterable[tuple[str, str]]) -> SwitchedConnection:
    """Answer 101 with these headers; what follows is the caller's.

    Raises:
        ConnectionResetError: the client has gone.
    """
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has gone")
    incoming = ClientBytes(transport)
    # Made for its websocket reader, but feed_data and feed_eof are all that aiohttp asks of a parser.
    request.protocol.set_parser(cast(Any, incoming))
    response = _Switched(status=101)
    for name, value in headers:
        response.headers.add(name, value)
    await response.prepare(request)
    return SwitchedConnection(request, response, incoming)
