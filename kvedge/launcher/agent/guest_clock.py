"""Sets a guest's clock by its agent once its CPUs run again: what it has not seen pass, its clock does not know.

Kept by `guest_agent`. One short thread for each time; a guest whose agent does not set clocks keeps the time it has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from kvedge.launcher.agent.agent_line import ANSWER_SECONDS, TURN_SECONDS, AgentLine
from kvedge.launcher.agent.guest_freeze import now
from kvedge.launcher.launcher_errors import LauncherError, Unanswered
from kvedge.runtime.background import passing_thread

log = logging.getLogger(__name__)

# A guest that was stopped for less time sees to its clock itself.
LEAST_SECONDS: Final = 1.0
# An agent may be busy, or wake up slowly; after so many tries it stays as it is.
_TRIES: Final = 6
_PAUSE: Final = 5.0


class GuestClock:
    """The clock of one guest; methods may be called from any thread."""

    def __init__(self, line: AgentLine, read_ns: Callable[[], int] = time.time_ns, pause: float = _PAUSE) -> None:
        """`read_ns()` is the host's time, in nanoseconds since the epoch."""
        self._line = line
        self._read_ns = read_ns
        self._pause = pause
        self._busy = threading.Lock()

    def set_soon(self) -> None:
        """Set it, without waiting for it."""
        if self._busy.acquire(blocking=False):
            passing_thread("guest-clock", self._set)

    def _set(self) -> None:
        try:
            for left in reversed(range(_TRIES)):
                try:
                    until = now() + TURN_SECONDS + ANSWER_SECONDS
                    self._line.ask("guest-set-time", lambda: {"time": self._read_ns()}, until)
                except Unanswered as error:
                    log.debug("the guest's clock is not set yet", extra={"facts": {"why": str(error)}})
                    if left:
                        time.sleep(self._pause)
                    continue
                except LauncherError as error:
                    # It does not know the command or may not obey it, or is gone.
                    log.info("the guest's clock is not set", extra={"facts": {"why": str(error)}})
                    return
                log.info("the guest's clock is set")
                return
        finally:
            self._busy.release()
