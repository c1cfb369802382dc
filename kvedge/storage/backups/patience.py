"""For how long a program may do nothing: a server that hangs is told from one that is slow.

Called by the door to restic. Reads what the kernel counts of a process and of a file system.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

# A program that waits for a server wakes now and then, and moves a few bytes within itself.
_LEAST_BYTES: Final = 4096


# A file system of the host says it at once; that of a server which hangs, never.
_ROOM_SECONDS: Final = 5.0


def read_room(place: str) -> int | None:
    """Bytes that anybody may still write there, or None where that cannot be told in time."""
    found: list[int] = []

    def look() -> None:
        with contextlib.suppress(OSError):
            facts = os.statvfs(place)
            found.append(facts.f_bavail * facts.f_frsize)

    looker = threading.Thread(target=look, name="room", daemon=True)
    looker.start()
    looker.join(_ROOM_SECONDS)
    return found[0] if found else None


class Stalled(Exception):
    """Nothing has moved for too long."""


class Patience:
    """Watches one process: `check` raises once it has moved no data for `seconds`."""

    def __init__(self, process: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._io = Path(f"/proc/{process}/io")
        self.seconds = seconds
        self._clock = clock
        self._moved, self._since = -_LEAST_BYTES, clock()

    @property
    def quiet_seconds(self) -> float:
        """For how long nothing has moved, as the last look saw it."""
        return self._clock() - self._since

    def check(self) -> None:
        """Return when it has moved something lately, or when nobody can tell.

        Raises:
            Stalled: when it has not.
        """
        moved, now = self._count(), self._clock()
        if moved is None or moved >= self._moved + _LEAST_BYTES:
            self._moved, self._since = moved or 0, now
        elif now - self._since >= self.seconds:
            raise Stalled(f"nothing has come or gone for {self.seconds:.0f} s")

    def _count(self) -> int | None:
        """Bytes that it has read and written: files, pipes and sockets."""
        try:
            text = self._io.read_text()
        except OSError:
            return None
        facts = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        return int(facts.get("rchar", 0)) + int(facts.get("wchar", 0))
