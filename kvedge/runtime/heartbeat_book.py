"""When this process saw the heartbeat of each of others change: handlers' nodes, other api roles.

Kept by loops. Touches nothing; the moments are those of the observer's own monotonic clock.

A heartbeat is an annotation that its sender writes by its own clock, which may be an hour off, or jump. So it is never
compared with a clock of ours: any change is a sign of life. A new observer has seen nothing yet and gives all senders
the full time. The time in which no sender could be heard does not count.
"""

from __future__ import annotations

import threading

from msgspec import Struct


class _Beat(Struct):
    """What a heartbeat said last, and when it began to say so."""

    text: str
    since: float


class HeartbeatBook:
    """Heartbeats by name; safe for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._beats: dict[str, _Beat] = {}
        self._blind_until = 0.0

    def note(self, name: str, heartbeat: str, now: float) -> None:
        """Somebody was seen with this heartbeat; an empty one is none."""
        with self._lock:
            known = self._beats.get(name)
            if not heartbeat:
                self._beats.pop(name, None)
            elif known is None or known.text != heartbeat:
                self._beats[name] = _Beat(heartbeat, now)

    def forget(self, name: str) -> None:
        """It is gone."""
        with self._lock:
            self._beats.pop(name, None)

    def note_blindness(self, now: float) -> None:
        """The API server tells nothing, up to now at least: nobody can be heard."""
        with self._lock:
            self._blind_until = max(self._blind_until, now)

    def silent_seconds(self, name: str, now: float) -> float | None:
        """For how long it could have been heard and was not; None for one that never had a heartbeat."""
        with self._lock:
            beat = self._beats.get(name)
            return None if beat is None else max(0.0, now - max(beat.since, self._blind_until))
