"""How many connections and requests the server holds at once, and which it gives up when there are too many.

The HTTP server itself: made by `EmbeddedApi`, in its event loop. A connection belongs to the user of its certificate,
to the user for whom a part of this process opened it, or to nobody; the one that gives way is the one that has been
idle longest, of the user who has too many. What is being answered is never given up for another. What slow clients
leave in memory is counted in `bytes_in_flight`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from kvedge.runtime.serving.connection_book import ConnectionBook
from kvedge.standalone.apiserver.access.identity import has_ended
from kvedge.standalone.apiserver.requests.bytes_in_flight import FLIGHT, BytesInFlight, Flight, too_much_in_flight
from kvedge.standalone.apiserver.requests.request_context import OWN_CALLER, Caller
from kvedge.standalone.apiserver.requests.request_target import READING
from kvedge.standalone.apiserver.routes.resource_routes import status_response
from kvedge.standalone.apiserver.wire.api_errors import TooManyRequests

log = logging.getLogger(__name__)

# A client may be slow to take an answer, by this and a second for so many bytes.
_ANSWER_SECONDS: Final = 60.0
_ANSWER_RATE: Final = 64 << 10
# Longer answers are handed to the connection piece by piece.
_PIECE: Final = 128 << 10
# As the real API server has it: so many requests are worked on at once, the others are told to come again.
READS, WRITES = 400, 200

# aiohttp answers clients that do not speak HTTP by itself, and would log a traceback for each of them.
_http_log = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError)))

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Limits(Struct, frozen=True):
    """How many connections there may be: in all, of one user, and of those who have no certificate."""

    total: int = 4096
    of_one: int = 1024
    of_nobody: int = 128


def limits_for(open_files: int) -> Limits:
    """Limits that leave half of the descriptors of this process to everything else."""
    most = Limits()
    total = max(64, min(most.total, open_files // 2))
    return Limits(total, min(most.of_one, total * 3 // 4), min(most.of_nobody, total // 8))


class ConnectionGate(web.Server):
    """The HTTP server, with limits."""

    def __init__(
        self,
        handler: Handler,
        lasts: Callable[[web.BaseRequest], bool],
        limits: Limits,
        keepalive_seconds: float,
    ) -> None:
        """`lasts(request)` says whether a request is meant to go on, so that it counts as a connection only."""
        super().__init__(
            self._count,
            access_log=None,
            logger=_http_log,
            # So long the rest of a refused body is read, so that the client gets to see the refusal.
            lingering_time=2.0,
            handler_cancellation=True,
            # As the real API server: a body counts as it came. Passed on unpacked, it would not have its length.
            auto_decompress=False,
            keepalive_timeout=keepalive_seconds,
            # A long label selector is in the first line.
            max_line_size=64 << 10,
        )
        self._serve = handler
        self._lasts = lasts
        self._limits = limits
        self._in_flight = BytesInFlight()
        self._book = ConnectionBook()
        self._working = {True: 0, False: 0}
        # Whose the connections from inside this process are.
        self._own: dict[asyncio.BaseProtocol, Caller] = {}

    def serve_own(self, caller: Caller) -> web.RequestHandler:
        """What serves a connection from inside this process, which is known to be the caller's."""
        handler = self()
        self._own[handler] = caller
        return handler

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take a connection in, perhaps in another's place."""
        super().connection_made(handler, transport)
        own = self._own.get(handler)
        owner = own.user if own is not None else _owner(transport)
        connection = self._book.take_in(handler, owner, transport)
        most = self._limits.of_one if owner else self._limits.of_nobody
        fits = self._book.count(owner) <= most or self._give_up(owner)
        if fits and (len(self._book) <= self._limits.total or self.give_one_up()):
            self._book.rest(connection)
            return
        log.warning("a connection of %s is refused: all of them are at work", owner or "an unknown client")
        self._book.give_up(connection)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        super().connection_lost(handler, exc)
        self._own.pop(handler, None)
        self._book.forget(handler)

    def give_one_up(self) -> bool:
        """Close the longest idle connection of whoever has the most; false when all are at work."""
        owners = list(self._book.idle_owners())
        return bool(owners) and self._give_up(max(owners, key=self._book.count))

    def close(self) -> None:
        """Stop looking after connections; for the end of the server."""
        self._book.close()

    def _give_up(self, owner: str) -> bool:
        idle = self._book.longest_idle(owner)
        if idle is not None:
            self._book.give_up(idle)
        return idle is not None

    async def _count(self, request: web.BaseRequest) -> web.StreamResponse:
        own = self._own.get(request.protocol)
        if own is not None:
            request[OWN_CALLER] = own
        connection = self._book.of(request.protocol)
        if connection is not None:
            self._book.work(connection)
        try:
            return await self._serve_limited(request)
        finally:
            if connection is not None:
                self._book.rest(connection)

    async def _serve_limited(self, request: web.BaseRequest) -> web.StreamResponse:
        request[FLIGHT] = flight = Flight(self._in_flight)
        try:
            if self._lasts(request):
                # It may be refused, or end at once: then it is an answer like any other.
                return await _send(request, await self._serve(request))
            return await self._count_work(request)
        finally:
            flight.end()

    async def _count_work(self, request: web.BaseRequest) -> web.StreamResponse:
        reads = request.method in READING
        if self._working[reads] >= (READS if reads else WRITES):
            return status_response(TooManyRequests("too many requests are worked on, please try again later", 1))
        self._working[reads] += 1
        try:
            return await _send(request, await self._serve(request))
        finally:
            self._working[reads] -= 1


async def _send(request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
    """Send an answer, which counts as work while it is in memory; return it."""
    if response.prepared:
        return response
    size = _size(response)
    if not request[FLIGHT].take(size):
        if request.method not in READING:
            # Done is done: the client learns it as if the line had been cut.
            return _hung_up(request, response)
        response, size = status_response(too_much_in_flight()), 0
    try:
        async with asyncio.timeout(_ANSWER_SECONDS + size / _ANSWER_RATE):
            if size > _PIECE:
                return await _send_in_pieces(request, response)
            await response.prepare(request)
            await response.write_eof()
    except (TimeoutError, ConnectionResetError):
        # It takes nothing, or has left just now, which is no failure of ours.
        return _hung_up(request, response)
    return response


def _size(response: web.StreamResponse) -> int:
    body = response.body if isinstance(response, web.Response) else None
    return len(body) if isinstance(body, bytes) else 0


def _hung_up(request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return response


async def _send_in_pieces(request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
    """Written at once, all of it would be encrypted and kept by the connection, however slow the client is."""
    assert isinstance(response, web.Response)
    assert isinstance(response.body, bytes)
    stream = web.StreamResponse(status=response.status, headers=response.headers)
    stream.content_length = len(response.body)
    await stream.prepare(request)
    view = memoryview(response.body)
    for start in range(0, len(view), _PIECE):
        await stream.write(view[start : start + _PIECE])
    await stream.write_eof()
    return stream


def _owner(transport: asyncio.Transport) -> str:
    """The user whose certificate was verified, or nobody."""
    certificate = transport.get_extra_info("peercert") or {}
    if has_ended(certificate, time.time()):
        return ""
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    return next((str(value) for name, value in pairs if name == "commonName"), "")
