"""The promise that a frozen guest thaws: until when it may stay frozen, kept where the next launcher finds it.

Kept by `guest_agent`; `guest_freezer` does what is due. Writes the run's record only. Times are seconds of a clock that
all processes share until the host is started again.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Final, Protocol

log = logging.getLogger(__name__)

# After the first failure to thaw, and at most; it doubles in between.
_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY: Final = 10.0


class FreezeRecord(Protocol):
    """Where the promise outlasts the launcher."""

    def freeze(self) -> float | None:
        """When the guest is to thaw, infinity for not by itself; None when it was not frozen."""

    def keep_freeze(self, thaw_at: float) -> None:
        """Remember it."""

    def forget_freeze(self) -> None:
        """It has thawed."""


def now() -> float:
    """The present time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class GuestFreeze:
    """One guest's freeze, if there is one; methods may be called from any thread."""

    def __init__(self, record: FreezeRecord) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._failures = 0
        # A launcher before this one may have promised something.
        self._thaw_at = record.freeze()

    @property
    def is_on(self) -> bool:
        """Whether the guest may be frozen by us."""
        with self._lock:
            return self._thaw_at is not None

    def begin(self, seconds: float, now: float) -> None:
        """The guest is about to be frozen, or has been, for so long; 0 for until `thaw_soon`. A later end counts.

        Raises:
            OSError: when it cannot be remembered; then the guest must not be frozen.
        """
        thaw_at = now + seconds if seconds > 0 else math.inf
        with self._lock:
            if self._thaw_at is None or thaw_at > self._thaw_at:
                self._record.keep_freeze(thaw_at)
                self._thaw_at = thaw_at

    def thaw_soon(self, now: float) -> None:
        """It is to thaw now, and if that fails, as soon as possible."""
        with self._lock:
            if self._thaw_at is not None and self._thaw_at > now:
                self._thaw_at = now
                self._failures = 0

    def note_thaw(self) -> None:
        """Note that the guest is frozen no longer."""
        with self._lock:
            was, self._thaw_at, self._failures = self._thaw_at, None, 0
            if was is None:
                return
            try:
                self._record.forget_freeze()
            except OSError as error:
                # The next launcher would thaw it once more, which does no harm.
                log.warning("the freeze is not forgotten", extra={"facts": {"why": str(error)}})

    def note_failure(self, now: float) -> None:
        """Note that the guest did not thaw: try again later."""
        with self._lock:
            if self._thaw_at is not None:
                self._thaw_at = now + min(_LONGEST_RETRY, _RETRY_SECONDS * 2**self._failures)
                self._failures = min(self._failures + 1, 16)

    def wait(self, now: float) -> float:
        """How long until it is to thaw: 0.0 for now, infinity for never."""
        with self._lock:
            return math.inf if self._thaw_at is None else max(0.0, self._thaw_at - now)
