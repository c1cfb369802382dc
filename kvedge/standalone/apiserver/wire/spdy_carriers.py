"""What carries SPDY: the messages of a websocket, or the connection itself as clients before kubectl 1.31 have it.

Used by the routes of Pods' streams, in the event loop. What the bytes mean is `spdy_frames`' part.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

from aiohttp import WSMsgType, web

from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.switched_connection import SwitchedConnection, switch_connection

SPDY: Final = "SPDY/3.1"
_OFFERED: Final = "X-Stream-Protocol-Version"
# A browser's word for a message that breaks the protocol.
_PROTOCOL_ERROR: Final = 1002
_LONGEST_REASON: Final = 100


class Carrier(Protocol):
    """Moves frames between this server and one client."""

    async def read(self) -> bytes:
        """The client's next bytes, however cut; empty at the end."""

    async def send(self, frame: bytes) -> None:
        """Send a frame; raises ConnectionError when the client has gone."""

    async def refuse(self, why: str) -> None:
        """The client does not keep to the protocol."""

    async def close(self, seconds: float) -> web.StreamResponse:
        """Let what is on its way arrive, for so long; the answer to the client's request."""


class WebSocketCarrier:
    """A websocket, each message of which is a piece of SPDY."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket

    async def read(self) -> bytes:
        """See `Carrier`."""
        async for message in self._websocket:
            if message.type is WSMsgType.BINARY and message.data:
                data: bytes = message.data
                return data
        return b""

    async def send(self, frame: bytes) -> None:
        """See `Carrier`."""
        await self._websocket.send_bytes(frame)

    async def refuse(self, why: str) -> None:
        """See `Carrier`."""
        with contextlib.suppress(ConnectionError):
            await self._websocket.close(code=_PROTOCOL_ERROR, message=why.encode()[:_LONGEST_REASON])

    async def close(self, seconds: float) -> web.StreamResponse:
        """See `Carrier`."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self._websocket.close()
        return self._websocket


class PlainCarrier:
    """The client's connection itself."""

    def __init__(self, connection: SwitchedConnection) -> None:
        self._connection = connection
        self.response = connection.response

    async def read(self) -> bytes:
        """See `Carrier`."""
        return await self._connection.read()

    async def send(self, frame: bytes) -> None:
        """See `Carrier`."""
        await self._connection.send(frame)

    async def refuse(self, why: str) -> None:
        """SPDY has no words for a reason: the connection ends."""

    async def close(self, seconds: float) -> web.StreamResponse:
        """See `Carrier`."""
        await self._connection.close(seconds)
        return self.response


def wants_spdy(request: web.BaseRequest) -> bool:
    """Whether the client asks for SPDY on the connection itself."""
    return request.method == "POST" and request.headers.get("Upgrade", "").lower() == SPDY.lower()


async def switch_to_spdy(request: web.BaseRequest, protocol: str) -> PlainCarrier:
    """Agree to SPDY, and in it to the streams of `protocol`; a client that names none takes what there is.

    Raises:
        BadRequest: it knows other protocols only.
    """
    offered = [each.strip() for line in request.headers.getall(_OFFERED, []) for each in line.split(",")]
    if offered and protocol not in offered:
        raise BadRequest(f"{_OFFERED}: streams of {protocol} are served over SPDY, and the client offers none")
    headers = [("Connection", "Upgrade"), ("Upgrade", SPDY), (_OFFERED, protocol)]
    return PlainCarrier(await switch_connection(request, headers))
