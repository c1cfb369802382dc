"""Streams between a viewer and a guest, decided without I/O: is the viewer alive, and who may look now.

Used by the handler's relay and by the api role, each with a shell that moves bytes and keeps timers. Times are seconds
on a monotonic clock, handed in.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeVar

from msgspec import Struct

# Proxies and NAT forget a silent connection after a minute or more. A connection that was torn off while nobody read
# from it is noticed by the next ping.
PING_SECONDS: Final = 10.0
# KubeVirt's read deadline.
DEAD_SECONDS: Final = 60.0
# A side that takes nothing may be a terminal that somebody has stopped: it keeps its place for a while.
STUCK_SECONDS: Final = 300.0
# Sending that had to wait so long went on because the other side took something: on a slow line our pings, and so its
# answers, stand in a long queue.
_WAITED_SECONDS: Final = 0.1

V = TypeVar("V")


class Liveness:
    """Whether the other side is there, judged by what is heard of it.

    While we do not read, as its bytes have nowhere to go, and while it takes none of ours, its silence says little:
    then it is given up only after a much longer time.
    """

    def __init__(
        self,
        now: float,
        ping_seconds: float = PING_SECONDS,
        dead_seconds: float = DEAD_SECONDS,
        stuck_seconds: float = STUCK_SECONDS,
    ) -> None:
        self._ping_seconds = ping_seconds
        self._dead_seconds = dead_seconds
        self._stuck_seconds = stuck_seconds
        self._heard = now
        self._pinged = now
        self._deaf_since: float | None = None
        self._sending_since: float | None = None

    @property
    def is_deaf(self) -> bool:
        """Whether we do not read now."""
        return self._deaf_since is not None

    @property
    def is_sending(self) -> bool:
        """Whether something of ours waits to be taken."""
        return self._sending_since is not None

    def note_heard(self, now: float) -> None:
        """Something came: data, a ping or a pong."""
        self._heard = now
        self._deaf_since = None

    def stop_listening(self, now: float) -> None:
        """We do not read until :meth:`listen`."""
        self._deaf_since = now

    def listen(self, now: float) -> None:
        """We read again: silence counts from here."""
        if self._deaf_since is not None:
            self._deaf_since = None
            self._heard = now

    def begin_sending(self, now: float) -> None:
        """We send, which takes until :meth:`end_sending`."""
        self._sending_since = now

    def end_sending(self, now: float) -> None:
        """It is on its way."""
        if self._sending_since is not None and now - self._sending_since >= _WAITED_SECONDS:
            self._heard = now
        self._sending_since = None

    def judge(self, now: float) -> Literal["nothing", "ping", "dead"]:
        """What to do now; a `ping` counts as sent."""
        if now >= self._given_up_at():
            return "dead"
        if now - self._pinged >= self._ping_seconds:
            self._pinged = now
            return "ping"
        return "nothing"

    def next_look(self, now: float) -> float:
        """In how many seconds to ask again."""
        return max(0.0, min(self._pinged + self._ping_seconds, self._given_up_at()) - now)

    def _given_up_at(self) -> float:
        begins = [since for since in (self._deaf_since, self._sending_since) if since is not None]
        if begins:
            return max(self._heard, min(begins)) + self._stuck_seconds
        return self._heard + self._dead_seconds


class Seat(Struct, Generic[V], frozen=True):
    """The outcome of asking to look: a viewer to be sent away first, or a refusal."""

    evicts: V | None = None
    refused: bool = False


@dataclass
class SharedDesk(Generic[V]):
    """The viewers of streams that several may be at, each with a connection of its own."""

    _seats: dict[Hashable, list[V]] = field(default_factory=dict)

    def take(self, stream: Hashable, viewer: V, most: int) -> bool:
        """Ask to look; False where `most` look already."""
        if self.is_full(stream, most):
            return False
        self._seats.setdefault(stream, []).append(viewer)
        return True

    def is_full(self, stream: Hashable, most: int) -> bool:
        """Whether nobody else may look."""
        return len(self._seats.get(stream, ())) >= most

    def leave(self, stream: Hashable, viewer: V) -> None:
        """Stop looking."""
        left = [each for each in self._seats.get(stream, ()) if each is not viewer]
        if left:
            self._seats[stream] = left
        else:
            self._seats.pop(stream, None)

    def viewers(self) -> list[V]:
        """Everybody who looks now."""
        return [viewer for viewers in self._seats.values() for viewer in viewers]

    def __len__(self) -> int:
        return sum(len(viewers) for viewers in self._seats.values())


@dataclass
class ViewerDesk(Generic[V]):
    """The viewers and their streams: one viewer per stream, the last that came."""

    _seats: dict[Hashable, V] = field(default_factory=dict)

    def take(self, stream: Hashable, viewer: V, *, preserve: bool = False) -> Seat[V]:
        """Ask to look; with `preserve` a viewer that is there already stays."""
        present = self._seats.get(stream)
        if present is not None and preserve:
            return Seat(refused=True)
        self._seats[stream] = viewer
        return Seat(evicts=present)

    def is_taken(self, stream: Hashable) -> bool:
        """Whether somebody looks."""
        return stream in self._seats

    def leave(self, stream: Hashable, viewer: V) -> None:
        """Stop looking; nothing happens when somebody else has taken the seat."""
        if self._seats.get(stream) is viewer:
            del self._seats[stream]

    def viewers(self) -> list[V]:
        """Everybody who looks now."""
        return list(self._seats.values())

    def __len__(self) -> int:
        return len(self._seats)
