"""Which failed pings of a guest's agent are told of: the first one, and from then on at most one a minute.

Kept by `agent_probes`; from any thread. A probe may ask each second, and each word about it is a pass of the handler.
"""

from __future__ import annotations

import threading
from typing import Final

AGAIN_SECONDS: Final = 60.0


class PingFailures:
    """The failures of one agent's pings; times are seconds of any clock that only goes forward."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # How many were told of in this launcher's life.
        self.told = 0
        self._told_at: float | None = None

    def note_failure(self, now: float) -> bool:
        """One ping has failed; whether that is to be told."""
        with self._lock:
            if self._told_at is not None and now - self._told_at < AGAIN_SECONDS:
                return False
            self._told_at = now
            self.told += 1
            return True
