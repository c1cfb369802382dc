"""Sets a guest's clock by its agent after time that the guest has not seen pass.

The guest was paused, came from another host, or its host slept. Kept by `guest_agent`. One short thread for each such
time; a guest whose agent does not set clocks keeps the time it has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from kvedge.launcher.agent.agent_line import ANSWER_SECONDS, TURN_SECONDS, AgentLine
from kvedge.launcher.agent.agent_state import Arrival
from kvedge.launcher.agent.guest_freeze import now
from kvedge.launcher.launcher_errors import LauncherError, Unanswered
from kvedge.runtime.background import passing_thread

log = logging.getLogger(__name__)

# A guest that was stopped for less time sees to its clock itself.
LEAST_SECONDS: Final = 1.0
# An agent may be busy, or wake up slowly; after so many tries it stays as it is.
_TRIES: Final = 6
_PAUSE: Final = 5.0
_COMMAND: Final = "guest-set-time"


def read_host_sleep() -> float:
    """For how many seconds this host has slept since it was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class GuestClock:
    """The clock of one guest; methods may be called from any thread."""

    def __init__(
        self,
        line: AgentLine,
        read_ns: Callable[[], int] = time.time_ns,
        read_sleep: Callable[[], float] = read_host_sleep,
        pause: float = _PAUSE,
    ) -> None:
        """`read_ns()` is the host's time, in nanoseconds since the epoch."""
        self._line = line
        self._read_ns = read_ns
        self._read_sleep = read_sleep
        self._pause = pause
        self._busy = threading.Lock()
        # Guards the two below.
        self._lock = threading.Lock()
        self._host_sleep = read_sleep()
        # The guest came here from elsewhere, which is told when its agent was told the time.
        self._on_told: Callable[[], None] | None = None

    def owe(self, on_told: Callable[[], None]) -> None:
        """The guest came from another host: its agent is told the time once, whenever it can be; then `on_told()` is
        called, in any thread.
        """
        with self._lock:
            self._on_told = on_told

    def follow(self, arrival: Arrival, *, can_answer: bool) -> None:
        """Tell the agent the time if the guest has missed some and `can_answer`; without waiting for it."""
        with self._lock:
            host_sleep = self._read_sleep()
            missed = max(arrival.slept, host_sleep - self._host_sleep)
            self._host_sleep = host_sleep
            is_owed = self._on_told is not None
        # An agent that has just come belongs to a guest that was started, or whose agent was.
        if can_answer and (is_owed or (missed >= LEAST_SECONDS and not arrival.came)):
            self._set_soon()

    def _set_soon(self) -> None:
        if self._busy.acquire(blocking=False):
            passing_thread("guest-clock", self._set)

    def _set(self) -> None:
        try:
            if self._try():
                self._settle()
        finally:
            self._busy.release()

    def _settle(self) -> None:
        with self._lock:
            on_told, self._on_told = self._on_told, None
        if on_told is not None:
            on_told()

    def _try(self) -> bool:
        """Whether it is done with, or in vain; False when the guest is paused again, or its agent has gone."""
        for left in reversed(range(_TRIES)):
            try:
                until = now() + TURN_SECONDS + ANSWER_SECONDS
                self._line.ask(_COMMAND, lambda: {"time": self._read_ns()}, until)
            except Unanswered as error:
                log.debug("the guest's clock is not set yet", extra={"facts": {"why": str(error)}})
                if left:
                    time.sleep(self._pause)
                continue
            except LauncherError as error:
                return self._judge(error)
            log.info("the guest's clock is set")
            return True
        log.info("the guest's clock is not set", extra={"facts": {"why": "its agent does not answer"}})
        return True

    def _judge(self, error: LauncherError) -> bool:
        with self._line.changed:
            state = self._line.state
            can_answer, commands = state.is_connected and state.is_running, state.facts.commands
        if can_answer and (commands is None or any(known.name == _COMMAND for known in commands)):
            log.info("the guest's clock is not set", extra={"facts": {"why": str(error)}})
        return can_answer
