"""What this process counts of the streams that it joins to guests: how many are open, and when the last one ended.

Fed by the api role's stream_calls.py; from any thread. Guests are told apart by their UID: another one of the same name
begins anew.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Final, NamedTuple

from msgspec import Struct, field

from kvedge.resources.usage.role_stats import StreamStats

# Guests that are told of, and guests without an open stream that are remembered: the longest ago goes first.
MOST_GUESTS: Final = 500


class _Guest(NamedTuple):
    namespace: str
    name: str
    uid: str


class _Streams(Struct):
    # Kinds that were open once stay here with 0.
    open: Counter[str] = field(default_factory=Counter)
    ended: int = 0


class StreamFigures:
    """Counts of streams; `now` is in seconds since 1970."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._busy: dict[_Guest, _Streams] = {}
        # In the order in which their last streams ended.
        self._idle: dict[_Guest, _Streams] = {}

    @contextmanager
    def count(self, kind: str, namespace: str, name: str, uid: str) -> Iterator[None]:
        """A stream of this kind is open inside."""
        guest = _Guest(namespace, name, uid)
        with self._lock:
            streams = self._busy.get(guest) or self._idle.pop(guest, None) or _Streams()
            self._busy[guest] = streams
            streams.open[kind] += 1
        try:
            yield
        finally:
            with self._lock:
                self._end(guest, streams, kind)

    def _end(self, guest: _Guest, streams: _Streams, kind: str) -> None:
        streams.open[kind] -= 1
        streams.ended = int(self._now())
        if streams.open.total():
            return
        self._idle[guest] = self._busy.pop(guest)
        if len(self._idle) > MOST_GUESTS:
            del self._idle[next(iter(self._idle))]

    def tell(self) -> list[StreamStats]:
        """Guests that somebody is connected to, then the others, the latest first."""
        with self._lock:
            guests = islice(chain(self._busy.items(), reversed(self._idle.items())), MOST_GUESTS)
            return [
                StreamStats(**guest._asdict(), open=dict(streams.open), ended=streams.ended)
                for guest, streams in guests
            ]


STREAM_FIGURES: Final = StreamFigures()
