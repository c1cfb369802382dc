"""A server's websocket as the viewer of a stream.

Used by the handler's relay and by the api role. Never imported by a launcher, for aiohttp's memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

from aiohttp import WSMsgType, web

from kvedge.runtime.serving.stream_pump import Farewell

# KubeVirt's: raw bytes in binary messages, no channel prefix.
SUBPROTOCOL: Final = "plain.kubevirt.io"
# One message; virtctl sends at most 10 KiB at once.
LARGEST_MESSAGE: Final = 1 << 20
# A terminal that takes nothing for so long will not take a last word, either.
_LAST_WORDS_SECONDS: Final = 2.0
# How long a slow viewer may take to read what was sent before the end, the end included; and how long when we, or the
# viewer, are going away.
_PATIENT_SECONDS: Final = 60.0
_HURRIED_SECONDS: Final = 3.0
_GOING_AWAY: Final = 1001


class WebSocketViewer:
    """A websocket that :meth:`accept` has made of a request."""

    def __init__(self) -> None:
        self.socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,),
            autoping=False,
            max_msg_size=LARGEST_MESSAGE,
            timeout=_PATIENT_SECONDS,
            # A screen's bytes are compressed already, and each side would hold a window of them.
            compress=False,
        )
        self._connection: socket.socket | None = None
        self._transport: asyncio.Transport | None = None

    async def accept(self, request: web.Request) -> None:
        """Turn the connection into a websocket.

        Raises:
            web.HTTPException: when the client did not ask for one.
            ConnectionError: when it has gone meanwhile.
        """
        await self.socket.prepare(request)
        self._connection = self.socket.get_extra_info("socket")
        self._transport = request.transport

    async def receive(self) -> bytes | None:
        """Binary data; a ping is answered and a pong counts, texts do not exist here."""
        while True:
            message = await self.socket.receive()
            match message.type:
                case WSMsgType.BINARY:
                    data: bytes = message.data
                    return data
                case WSMsgType.PING:
                    await self.socket.pong(message.data)
                    return b""
                case WSMsgType.PONG:
                    return b""
                case WSMsgType.TEXT:
                    continue
                case _:
                    return None

    async def send(self, data: bytes) -> None:
        """Send, and wait while the viewer is slow."""
        await self.socket.send_bytes(data)

    async def ping(self) -> None:
        """Ask for a sign of life."""
        await self.socket.ping()

    async def close(self, farewell: Farewell) -> None:
        """Show the last words, if the viewer still takes them, and close; a viewer that takes nothing is hung up on."""
        try:
            await self._say(farewell.last_words)
            async with asyncio.timeout(_HURRIED_SECONDS if farewell.code == _GOING_AWAY else _PATIENT_SECONDS):
                await self.socket.close(code=farewell.code, message=farewell.reason.encode())
        except (ConnectionError, TimeoutError):
            hang_up(self._connection)

    async def drop(self, farewell: Farewell) -> None:
        """Show the last words and close the connection without a close frame, which clients read as code 1006.

        What was sent before still arrives; a viewer that does not take it is hung up on.
        """
        with contextlib.suppress(ConnectionError, TimeoutError):
            await self._say(farewell.last_words)
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(_PATIENT_SECONDS, hang_up, self._connection)
        # Nothing can be written any more: this only marks the websocket as closed.
        await self.socket.close()

    async def _say(self, last_words: bytes) -> None:
        if last_words and not self.socket.closed:
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self.socket.send_bytes(last_words)


def wants_websocket(request: web.Request) -> bool:
    """Whether this is the beginning of a websocket, as it should be."""
    return web.WebSocketResponse(protocols=(SUBPROTOCOL,)).can_prepare(request).ok


def nobody_there() -> web.Response:
    """The answer to a client that has gone before it was answered: nobody reads it, and nothing has failed."""
    return web.Response(status=400)


def hang_up(connection: socket.socket | None) -> None:
    """End a connection whose other side takes nothing; the data that it has not taken are lost.

    Not by its transport's abort(): Python 3.11 fails there for one that was closed before.
    """
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
