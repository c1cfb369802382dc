"""Who may use the console: a link that works once, the sessions that begin with it, and tickets for streams.

Called by `console_app`. Holds secrets in memory only; the clock is handed in. All of it runs in one event loop.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")

LINK_SECONDS: Final = 300.0
TICKET_SECONDS: Final = 30.0
# A page that is open keeps its session awake; without one it ends after the first, in any case after the second.
_IDLE_SECONDS: Final = 15 * 60.0
_SESSION_SECONDS: Final = 8 * 3600.0
_SESSIONS: Final = 8
# Of all users of a console on a box: each has two watches.
_ALL_SESSIONS: Final = 32
_TICKETS: Final = 64
_TICKETS_EACH: Final = 16
# As many wrong secrets in a minute; 256 bits are not guessed, and this keeps a script from filling the processor.
_TRIES: Final = 10
_TRY_SECONDS: Final = 60.0


class SignInRefused(Exception):
    """No session or stream for this; the text is for the user."""


@dataclass(slots=True, eq=False)
class WebSession(Generic[T]):
    """One browser that has signed in, and the user for whom it acts."""

    user: T
    begun: float
    used: float
    # Whose sessions are counted together.
    owner: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class StreamTarget(Struct, frozen=True):
    """One stream of one run of a VM: a VM that was made anew under the same name is another one."""

    namespace: str
    name: str
    uid: str
    stream: str
    # Whether another viewer loses it to this one.
    takes_over: bool = False


class SignInDesk(Generic[T]):
    """Exchanges links for sessions, and knows the sessions."""

    def __init__(self, clock: Callable[[], float], on_end: Callable[[T], None] = lambda user: None) -> None:
        """`on_end` gets the user of each session that ends."""
        self._clock = clock
        self._on_end = on_end
        self._links: dict[str, tuple[T, float]] = {}
        self._sessions: dict[str, WebSession[T]] = {}
        self._failures: list[float] = []

    def make_link_secret(self, user: T) -> str:
        """A secret that signs this user in once, within five minutes."""
        secret = secrets.token_urlsafe(32)
        self._links[secret] = (user, self._clock() + LINK_SECONDS)
        return secret

    def sign_in(self, secret: str) -> str:
        """The value of the cookie of a new session.

        Raises:
            SignInRefused: for a secret that is wrong, used or too old.
        """
        now = self._clock()
        self._failures = [moment for moment in self._failures if now - moment < _TRY_SECONDS]
        if len(self._failures) >= _TRIES:
            raise SignInRefused("too many wrong links: wait a minute")
        found = _find(self._links, secret)
        if found is None or self._links[found][1] <= now:
            self._failures.append(now)
            raise SignInRefused("this link was used already, or is older than 5 minutes: run `kvedge web` again")
        cookie = self.begin(self._links[found][0])
        del self._links[found]
        return cookie

    def begin(self, user: T, owner: str = "") -> str:
        """The value of the cookie of a new session, for somebody who has shown who it is.

        Raises:
            SignInRefused: when too many sessions are open, of this owner or in all.
        """
        self._end_old()
        if sum(session.owner == owner for session in self._sessions.values()) >= _SESSIONS:
            raise SignInRefused(f"{_SESSIONS} sessions are open: sign out of one")
        if len(self._sessions) >= _ALL_SESSIONS:
            raise SignInRefused(f"{_ALL_SESSIONS} sessions are open here: wait until others have signed out")
        cookie, now = secrets.token_urlsafe(32), self._clock()
        self._sessions[cookie] = WebSession(user, now, now, owner)
        return cookie

    def sessions(self) -> list[WebSession[T]]:
        """All that are open."""
        self._end_old()
        return list(self._sessions.values())

    def find(self, cookie: str) -> WebSession[T] | None:
        """The session of a cookie, which counts as used now."""
        self._end_old()
        found = _find(self._sessions, cookie)
        if found is None:
            return None
        session = self._sessions[found]
        self.touch(session)
        return session

    def touch(self, session: WebSession[T]) -> None:
        """A page of it is open."""
        session.used = self._clock()

    def is_over(self, session: WebSession[T]) -> bool:
        """Whether it has ended; looked at by streams, which may last longer than it."""
        self._end_old()
        return session.ended.is_set()

    def sign_out(self, session: WebSession[T]) -> None:
        """End it, and with it its streams."""
        if session.ended.is_set():
            return
        session.ended.set()
        self._on_end(session.user)
        self._sessions = {cookie: other for cookie, other in self._sessions.items() if other is not session}

    def _end_old(self) -> None:
        now = self._clock()
        for session in list(self._sessions.values()):
            if now - session.used >= _IDLE_SECONDS or now - session.begun >= _SESSION_SECONDS:
                self.sign_out(session)


class TicketDesk(Generic[T]):
    """Tickets: each opens one stream, once, within half a minute, for the session that asked."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tickets: dict[str, tuple[WebSession[T], StreamTarget, float]] = {}

    def issue(self, session: WebSession[T], target: StreamTarget) -> str:
        """A new ticket.

        Raises:
            SignInRefused: when too many wait to be used.
        """
        now = self._clock()
        self._tickets = {ticket: entry for ticket, entry in self._tickets.items() if entry[2] > now}
        own = sum(entry[0].owner == session.owner for entry in self._tickets.values())
        if own >= _TICKETS_EACH or len(self._tickets) >= _TICKETS:
            raise SignInRefused("too many streams were asked for: wait half a minute")
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = (session, target, now + TICKET_SECONDS)
        return ticket

    def redeem(self, session: WebSession[T], ticket: str) -> StreamTarget:
        """What the ticket opens; it is used up, whatever comes of it.

        Raises:
            SignInRefused: for one that is not known, too old, or another session's.
        """
        found = _find(self._tickets, ticket)
        entry = self._tickets.pop(found) if found is not None else None
        if entry is None or entry[0] is not session or entry[2] <= self._clock():
            raise SignInRefused("this ticket was used already, is too old or another session's")
        return entry[1]


def _find(entries: dict[str, T], secret: str) -> str | None:
    """The key that equals the secret; how long it takes tells nothing of where they differ."""
    given = secret.encode(errors="replace")
    found = None
    for key in entries:
        if hmac.compare_digest(key.encode(), given):
            found = key
    return found
