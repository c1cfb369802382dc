"""Hands the events of one watch to its connection, in pieces that a slow client may leave there.

Made by `watch_stream`. Talks to one client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from aiohttp import web

from kvedge.standalone.apiserver.requests.bytes_in_flight import FLIGHT, Flight, too_much_in_flight

# So much is handed to the connection at once: it encrypts and keeps it, however slow the client is.
_PIECE: Final = 64 << 10
# So long an event waits for what is on its way to other watches of the same user.
_ROOM_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.1


class Event(NamedTuple):
    """An encoded event. A shared event is in memory for all watchers; any other is in memory for this one."""

    line: bytes
    is_shared: bool = False


class WatchSender:
    """Sends the events of one watch."""

    def __init__(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        self._request = request
        self._response = response

    async def send(self, events: Iterable[Event]) -> None:
        """Send events in order, small ones together; each is made when its turn comes.

        Raises:
            ConnectionResetError: the client is gone, or too much is in memory for its user.
        """
        waiting: list[bytes] = []
        size = 0
        for event in events:
            if waiting and size + len(event.line) > _PIECE:
                await self._response.write(b"".join(waiting))
                waiting, size = [], 0
            if len(event.line) > _PIECE:
                await self._send_large(event)
                continue
            waiting.append(event.line)
            size += len(event.line)
        if waiting:
            await self._response.write(b"".join(waiting))

    async def _send_large(self, event: Event) -> None:
        flight = self._request[FLIGHT]
        held = 0 if event.is_shared else len(event.line)
        if not await _take_room(flight, held):
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionResetError(str(too_much_in_flight()))
        view = memoryview(event.line)
        for start in range(0, len(view), _PIECE):
            await self._response.write(view[start : start + _PIECE])
        flight.give_back(held)


async def _take_room(flight: Flight, size: int) -> bool:
    """Take so much, once there is room for it; false when none comes."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _ROOM_SECONDS
    while not flight.take(size):
        if loop.time() >= end:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True
