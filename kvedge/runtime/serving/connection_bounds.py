"""How many connections a server of a role holds at once, and which it gives up when there are too many.

Made by `HttpsServer`, in its event loop. Who shows a certificate of the authority that the server asks for is known;
everybody else can be anybody who reaches the port, a guest included, and must not cost the known ones anything.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

log = logging.getLogger(__name__)

# So long a new connection may take until its first request is there. A client that opens one has something to say.
FIRST_REQUEST_SECONDS: Final = 15.0
# Consoles and forwarded ports are one each; the others are an API server's, which asks many things at once.
MOST_KNOWN: Final = 1024
MOST_UNKNOWN: Final = 512
# A call of an unknown client takes milliseconds. One that takes longer gives way to others when there are too many.
_SHORT_SECONDS: Final = 5.0
_SWEEP_SECONDS: Final = 1.0


@dataclass(eq=False)
class _Connection:
    # When it was made, or when what it does now or did last began.
    since: float
    # None for a moment, until it is known.
    transport: asyncio.Transport | None = None
    is_known: bool = False
    is_used: bool = False
    is_at_work: bool = False


class ConnectionBounds:
    """Watches over the connections of one application."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._connections: dict[asyncio.Protocol, _Connection] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sweep()

    def close(self) -> None:
        """Stop looking after connections; for the end of the server."""
        if self._timer is not None:
            self._timer.cancel()

    def take_in(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """A connection has got through its handshake; perhaps it takes another's place, or none is left for it."""
        connection = self._of(protocol)
        connection.transport = transport
        connection.is_known = bool(transport.get_extra_info("peercert"))
        self._forget_closed()
        others = [each for each in self._connections.values() if each.is_known == connection.is_known]
        if len(others) <= (MOST_KNOWN if connection.is_known else MOST_UNKNOWN):
            return
        others.remove(connection)
        if not self._give_up_one_of(others):
            log.warning("a connection is refused: all of them are at work")
            transport.abort()

    def give_one_up(self) -> bool:
        """Close a connection that can be spared; false when there is none."""
        self._forget_closed()
        return self._give_up_one_of(list(self._connections.values()))

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The application's outermost middleware: knows which connections are at work."""
        if request.transport is None:
            # The client has gone.
            return await handler(request)
        connection = self._of(request.protocol)
        connection.transport = request.transport
        connection.is_used = connection.is_at_work = True
        connection.since = self._loop.time()
        try:
            return await handler(request)
        finally:
            connection.is_at_work = False
            connection.since = self._loop.time()

    def _of(self, protocol: asyncio.Protocol) -> _Connection:
        return self._connections.setdefault(protocol, _Connection(self._loop.time()))

    def _give_up_one_of(self, connections: list[_Connection]) -> bool:
        short = self._loop.time() - _SHORT_SECONDS
        spared = [
            each
            for each in connections
            if each.transport is not None
            and (not each.is_at_work or (not each.is_known and each.since < short))
            and not each.transport.is_closing()
        ]
        if not spared:
            return False
        oldest = min(spared, key=lambda each: (each.is_known, each.since))
        assert oldest.transport is not None
        oldest.transport.abort()
        return True

    def _forget_closed(self) -> None:
        for protocol, connection in list(self._connections.items()):
            if connection.transport is not None and connection.transport.is_closing():
                del self._connections[protocol]

    def _sweep(self) -> None:
        """Close the connections over which no request has come."""
        self._forget_closed()
        late = self._loop.time() - FIRST_REQUEST_SECONDS
        for connection in self._connections.values():
            if connection.transport is not None and not connection.is_used and connection.since < late:
                connection.transport.abort()
        self._timer = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
