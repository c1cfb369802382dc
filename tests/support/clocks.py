"""Clocks for tests: one that stands until a test moves it, and the machine's, turned by hand.

Both are a Clock (see kvedge.runtime.clock). With the second, all that runs goes on while years pass at once.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo


class FakeClock:
    """A clock that stands; `wall` is the time of day when it starts."""

    def __init__(self, wall: datetime = datetime(2026, 5, 1, tzinfo=UTC), seconds: float = 1000.0) -> None:
        self.seconds = seconds
        self._wall = wall - timedelta(seconds=seconds)

    def now(self) -> datetime:
        return self._wall + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def set_wall(self, wall: datetime) -> None:
        """Tell another time of day from now on; the monotonic clock does not notice."""
        self._wall = wall - timedelta(seconds=self.seconds)


class TurnedClock:
    """A clock that is ahead of the machine's by as much as a test says."""

    def __init__(self) -> None:
        self._ahead = timedelta()
        self._wall_ahead = timedelta()

    def turn(self, further: timedelta) -> None:
        """Be that much further ahead of the machine from now on; a monotonic clock is never turned back."""
        assert further >= timedelta()
        self._ahead += further

    def jump(self, ahead: timedelta) -> None:
        """Have the wall clock alone ahead of the machine's, or behind it."""
        self._wall_ahead = ahead

    def now(self, tz: tzinfo | None = UTC) -> datetime:
        return datetime.now(tz) + self._ahead + self._wall_ahead

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead.total_seconds()
