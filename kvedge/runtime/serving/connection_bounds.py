"""How many connections a server of a role holds at once, and which it gives up when there are too many.

Made by `HttpsServer`, in its event loop. A client that shows a certificate of the authority that the server asks for is
known, and so is one whose requests the application knows (`KNOWS`). All others can be anybody who reaches the port, a
guest included, and must not cost the known ones anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from kvedge.runtime.serving.connection_book import Connection, ConnectionBook

log = logging.getLogger(__name__)

# Consoles and forwarded ports are one each; the others are an API server's, which asks many things at once.
MOST_KNOWN: Final = 1024
MOST_UNKNOWN: Final = 512
# A call of an unknown client takes milliseconds. A longer one gives way to others when there are too many.
_SHORT_SECONDS: Final = 5.0

# What an application may have: whether a request is of somebody who has signed in.
KNOWS: Final[web.AppKey[Callable[[web.Request], bool]]] = web.AppKey("knows")

# The owners of connections: all that show a certificate of the authority count as one.
_KNOWN: Final = "known"
_UNKNOWN: Final = ""


class ConnectionBounds:
    """Watches over the connections of one application."""

    def __init__(self, knows: Callable[[web.Request], bool] | None = None) -> None:
        """`knows`: whether a request makes its connection one of a known client."""
        self._knows = knows
        self._loop = asyncio.get_running_loop()
        self._book = ConnectionBook()

    def close(self) -> None:
        """Stop looking after connections; for the end of the server."""
        self._book.close()

    def take_in(self, transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
        """A connection has got through its handshake; perhaps it takes another's place, or none is left for it."""
        self._book.forget_closed()
        connection = self._find_connection(protocol, transport)
        most = MOST_KNOWN if connection.owner == _KNOWN else MOST_UNKNOWN
        if self._book.count(connection.owner) > most and not self._give_up_one_of(connection.owner):
            log.warning("a connection is refused: all of them are at work")
            self._book.give_up(connection)
        elif not connection.is_used:
            self._book.rest(connection)

    def give_one_up(self) -> bool:
        """Close a connection that can be spared; false when there is none."""
        self._book.forget_closed()
        return self._give_up_one_of(_UNKNOWN) or self._give_up_one_of(_KNOWN)

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The application's outermost middleware: knows which connections are at work."""
        if request.transport is None:
            # The client has gone.
            return await handler(request)
        connection = self._find_connection(request.protocol, request.transport)
        if connection.owner == _UNKNOWN and self._knows is not None and self._knows(request):
            self._become_known(connection)
        self._book.work(connection)
        try:
            return await handler(request)
        finally:
            self._book.rest(connection)

    def _find_connection(self, protocol: asyncio.BaseProtocol, transport: asyncio.Transport) -> Connection:
        """A request may be there before the handshake is told of."""
        owner = _KNOWN if transport.get_extra_info("peercert") else _UNKNOWN
        return self._book.of(protocol) or self._book.take_in(protocol, owner, transport)

    def _become_known(self, connection: Connection) -> None:
        if self._book.count(_KNOWN) < MOST_KNOWN or self._give_up_one_of(_KNOWN):
            self._book.hand_over(connection, _KNOWN)

    def _give_up_one_of(self, owner: str) -> bool:
        spared = [self._book.longest_idle(owner)]
        working = self._book.longest_at_work(owner)
        if owner == _UNKNOWN and working is not None and working.since < self._loop.time() - _SHORT_SECONDS:
            spared.append(working)
        found = [each for each in spared if each is not None]
        if not found:
            return False
        self._book.give_up(min(found, key=lambda each: each.since))
        return True
