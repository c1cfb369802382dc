"""Whether a loop still turns: the loop itself stamps its heartbeat, and the feeder of the watchdog asks for the age.

Made by every owner of an event loop or of a long-lived thread, and asked by its `failure()`. Touches the monotonic
clock alone, which stands still while the machine is suspended.

A thread that only lives proves nothing: it may compute for minutes, or wait for a lock. So the stamp comes from inside:
an event loop beats by its own timer, a thread at the begin of each piece of work. A thread that has nothing to do
rests, because it may wait for work as long as it likes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    # A launcher has no event loop, and no room for the module.
    import asyncio

# An event loop that serves nobody for so long has failed. Work of a client's size runs outside of it.
LOOP_SECONDS: Final = 20.0
# A thread's piece of work is some calls with deadlines of their own. A piece that takes so long hangs.
ROUND_SECONDS: Final = 300.0
# The service runner asks for the age each second. If it has not asked for this long, the whole process stood still
# (SIGSTOP, a debugger, no memory). No loop is to blame for that, so each has its full limit again from then on.
_BLIND_SECONDS: Final = 5.0


class Heartbeat:
    """When one loop last beat. The loop calls `beat` and `rest` from inside; any thread may ask for the age."""

    def __init__(self, name: str, limit: float = LOOP_SECONDS, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`name` is what the failure calls the loop. The loop rests until its first beat."""
        self.name = name
        self.limit = limit
        self._monotonic = monotonic
        # None while it rests.
        self._stamped: float | None = None
        self._asked = monotonic()
        self._forgiven = self._asked

    def beat(self) -> None:
        """The loop turns, and works from here on."""
        self._stamped = self._monotonic()

    def rest(self) -> None:
        """The loop waits for work, or has ended on purpose: no beat is missed from here on."""
        self._stamped = None

    def silent_seconds(self) -> float:
        """How long no beat came although one was due; 0 while the loop rests."""
        now = self._monotonic()
        if now - self._asked > _BLIND_SECONDS:
            self._forgiven = now
        self._asked = now
        stamped = self._stamped
        return 0.0 if stamped is None else max(0.0, now - max(stamped, self._forgiven))

    def failure(self) -> str | None:
        """Why the loop counts as stuck, or None."""
        silent = self.silent_seconds()
        return f"{self.name} has been stuck for {silent:.0f} s" if silent > self.limit else None


class LoopPulse:
    """Beats from inside an event loop, by a timer of that loop: a loop that does not turn does not beat."""

    BEAT_SECONDS = 1.0

    def __init__(self, heartbeat: Heartbeat, loop: asyncio.AbstractEventLoop) -> None:
        self._heartbeat = heartbeat
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat; called in the loop's thread, or before the loop runs."""
        self._heartbeat.beat()
        self._timer = self._loop.call_later(self.BEAT_SECONDS, self.start)

    def stop(self) -> None:
        """Beat no more, and miss none; called in the loop's thread."""
        if self._timer is not None:
            self._timer.cancel()
        self._heartbeat.rest()
