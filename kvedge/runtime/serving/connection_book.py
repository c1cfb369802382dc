"""Which connections a server holds, by owner: those that wait for a request, the longest first, and those at work.

The core of both limiters: `connection_bounds` for the roles' server, and the embedded API's `connection_gate`. They say
who owns a connection, how many an owner may have, and which one gives way. Lives in the server's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

# So long a new connection may take until its first request is there. A client that opens one has something to say.
FIRST_REQUEST_SECONDS: Final = 15.0
_SWEEP_SECONDS: Final = 1.0


@dataclass(eq=False, slots=True)
class Connection:
    """One connection of somebody."""

    protocol: asyncio.BaseProtocol
    owner: str
    transport: asyncio.Transport
    # When it was made, or when what it does now, or its wait for the next request, began.
    since: float
    # Whether a request has come over it.
    is_used: bool = False


# The oldest comes first.
_ByAge: TypeAlias = dict[asyncio.BaseProtocol, Connection]


class ConnectionBook:
    """Keeps account of connections, and closes those over which no first request comes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._known: dict[asyncio.BaseProtocol, Connection] = {}
        self._counts: dict[str, int] = {}
        self._idle: dict[str, _ByAge] = {}
        self._at_work: dict[str, _ByAge] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sweep()

    def __len__(self) -> int:
        return len(self._known)

    def close(self) -> None:
        """Stop looking after connections; for the end of the server."""
        if self._timer is not None:
            self._timer.cancel()

    def count(self, owner: str) -> int:
        """How many connections an owner has."""
        return self._counts.get(owner, 0)

    def idle_owners(self) -> Iterator[str]:
        """The owners of whose connections one waits for a request."""
        return (owner for owner, idle in self._idle.items() if idle)

    def of(self, protocol: asyncio.BaseProtocol) -> Connection | None:
        """The connection of a protocol, unless it is forgotten."""
        return self._known.get(protocol)

    def take_in(self, protocol: asyncio.BaseProtocol, owner: str, transport: asyncio.Transport) -> Connection:
        """Note a new connection; until it rests or works it is not among those that can be given up."""
        self._known[protocol] = made = Connection(protocol, owner, transport, self._loop.time())
        self._counts[owner] = self.count(owner) + 1
        return made

    def work(self, connection: Connection) -> None:
        """A request has come over it."""
        connection.is_used = True
        self._move(connection, self._idle, self._at_work)

    def rest(self, connection: Connection) -> None:
        """It waits for a request; nothing happens for one that is forgotten."""
        if self._known.get(connection.protocol) is connection:
            self._move(connection, self._at_work, self._idle)

    def hand_over(self, connection: Connection, owner: str) -> None:
        """Somebody else owns it from now on; it is among those that neither rest nor work until it does either."""
        if self._known.get(connection.protocol) is connection:
            self.forget(connection.protocol)
            connection.owner = owner
            self._known[connection.protocol] = connection
            self._counts[owner] = self.count(owner) + 1

    def longest_idle(self, owner: str) -> Connection | None:
        """The one that has waited longest for a request."""
        return next(iter(self._idle.get(owner, {}).values()), None)

    def longest_at_work(self, owner: str) -> Connection | None:
        """The one whose request has been worked on longest."""
        return next(iter(self._at_work.get(owner, {}).values()), None)

    def give_up(self, connection: Connection) -> None:
        """Close one and forget it."""
        self.forget(connection.protocol)
        connection.transport.abort()

    def forget(self, protocol: asyncio.BaseProtocol) -> None:
        """It has ended."""
        connection = self._known.pop(protocol, None)
        if connection is None:
            return
        owner = connection.owner
        for kept in (self._idle, self._at_work):
            kept.get(owner, {}).pop(protocol, None)
        self._counts[owner] -= 1
        if not self._counts[owner]:
            for gone in (self._counts, self._idle, self._at_work):
                gone.pop(owner, None)

    def forget_closed(self) -> None:
        """Forget those that are being closed."""
        for protocol, connection in list(self._known.items()):
            if connection.transport.is_closing():
                self.forget(protocol)

    def _move(self, connection: Connection, source: dict[str, _ByAge], target: dict[str, _ByAge]) -> None:
        source.get(connection.owner, {}).pop(connection.protocol, None)
        connection.since = self._loop.time()
        target.setdefault(connection.owner, {})[connection.protocol] = connection

    def _sweep(self) -> None:
        """Close the connections over which no request has come."""
        self.forget_closed()
        late = self._loop.time() - FIRST_REQUEST_SECONDS
        for connection in list(self._known.values()):
            if not connection.is_used and connection.since < late:
                self.give_up(connection)
        self._timer = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
