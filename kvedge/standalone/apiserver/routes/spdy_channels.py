"""The channels of `kubectl exec` and `attach` as streams of SPDY, for clients that speak no websockets.

Used by `exec_routes`, in the event loop. A client opens a stream for each channel before anything else; what they carry
is handed on, and taken, as the messages of a websocket (`remote_command`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Collection
from typing import Final

from aiohttp import WSMessage, WSMsgType

from kvedge.standalone.apiserver.routes import remote_command as words
from kvedge.standalone.apiserver.wire.spdy_carriers import Carrier
from kvedge.standalone.apiserver.wire.spdy_frames import (
    REFUSED_STREAM,
    Event,
    Opened,
    Pinged,
    Received,
    SpdyError,
    SpdyReader,
    SpdyWriter,
    WasReset,
    data_frame,
    pong_frame,
    reset_frame,
)

CHANNELS: Final = {
    "stdin": words.STDIN,
    "stdout": words.STDOUT,
    "stderr": words.STDERR,
    "error": words.ERROR,
    "resize": words.RESIZE,
}
# As Kubernetes waits for them.
_OPEN_SECONDS: Final = 30.0
_FAREWELL_SECONDS: Final = 10.0
# Of what a client sends before its streams are open.
_MOST_EARLY: Final = 256 << 10


class SpdyChannels:
    """The channels of one client."""

    def __init__(self, carrier: Carrier, wanted: Collection[int]) -> None:
        """`wanted` are the channels that the client is to open."""
        self._carrier = carrier
        self._wanted = frozenset(wanted)
        self._reader, self._writer = SpdyReader(), SpdyWriter()
        # The streams by their channels. One that the client has reset keeps its number, and takes nothing any more.
        self._streams: dict[int, int] = {}
        self._silent: set[int] = set()
        self._events: deque[Event] = deque()

    async def open(self) -> None:
        """Wait until all channels are there.

        Raises:
            SpdyError: something else comes, or they do not come in time.
            ConnectionError: the client has gone.
        """
        early: list[Event] = []
        size = 0
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                while not self._wanted <= self._streams.keys():
                    event = await self._next()
                    if event is None:
                        raise ConnectionResetError("the client has gone")
                    if isinstance(event, Opened):
                        await self._take(event)
                        continue
                    size += len(event.data) + 64 if isinstance(event, Received) else 64
                    if size > _MOST_EARLY:
                        raise SpdyError("bytes before the streams are open")
                    early.append(event)
        except TimeoutError:
            raise SpdyError("the streams are not opened in time") from None
        self._events.extendleft(reversed(early))

    async def send_bytes(self, message: bytes) -> None:
        """Send a message on its channel, if the client has one for it.

        Raises:
            ConnectionError: the client has gone.
        """
        channel = message[0]
        stream = self._streams.get(channel)
        if stream is not None and channel not in self._silent and len(message) > 1:
            await self._carrier.send(data_frame(stream, message[1:]))

    async def close(self) -> None:
        """End all streams, and the connection."""
        with contextlib.suppress(ConnectionError):
            for channel, stream in self._streams.items():
                if channel not in self._silent:
                    await self._carrier.send(data_frame(stream, b"", ends=True))
        await self._carrier.close(_FAREWELL_SECONDS)

    async def __aiter__(self) -> AsyncIterator[WSMessage]:
        """What the client says, as messages of a websocket, until it ends or says what makes no sense."""
        with contextlib.suppress(SpdyError):
            while (event := await self._next()) is not None:
                for said in await self._read(event):
                    yield WSMessage(WSMsgType.BINARY, said, None)

    async def _read(self, event: Event) -> list[bytes]:
        """The messages that an event means."""
        if isinstance(event, Opened):
            await self._take(event)
        elif isinstance(event, Pinged):
            await self._carrier.send(pong_frame(event.number))
        else:
            channel = next((each for each, stream in self._streams.items() if stream == event.stream), None)
            if channel is not None:
                return list(self._hear(channel, event))
        return []

    def _hear(self, channel: int, event: Received | WasReset) -> list[bytes]:
        said = [bytes([channel]) + event.data] if isinstance(event, Received) and event.data else []
        if isinstance(event, WasReset):
            self._silent.add(channel)
        if channel == words.STDIN and (isinstance(event, WasReset) or event.ends):
            said.append(bytes([words.CLOSE, channel]))
        return said if channel in (words.STDIN, words.RESIZE) else []

    async def _take(self, event: Opened) -> None:
        """Agree to a stream, or refuse one that nobody has asked for."""
        channel = CHANNELS.get(event.headers.get("streamtype", "").lower())
        if channel is None or channel not in self._wanted or channel in self._streams:
            await self._carrier.send(reset_frame(event.stream, REFUSED_STREAM))
            return
        self._streams[channel] = event.stream
        await self._carrier.send(self._writer.reply(event.stream))

    async def _next(self) -> Event | None:
        while not self._events:
            data = await self._carrier.read()
            if not data:
                return None
            self._events.extend(self._reader.receive(data))
        return self._events.popleft()
