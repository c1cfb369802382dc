"""The machine's clocks, turned forward by hand: what happens in years is seen at once, and everything still runs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


class TurnedClock:
    """A Clock (see kvedge.runtime.clock) that is ahead by as much as a test says."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def turn(self, further: timedelta) -> None:
        """Be that much further ahead of the machine from now on; a monotonic clock is never turned back."""
        assert further >= timedelta()
        self._ahead += further

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead.total_seconds()
