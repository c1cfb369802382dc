"""A thread that does the same thing again and again, with a pause in between.

Used by the api role and by the agent's keepers, which look after something that nobody tells them about.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from kvedge.runtime.background import BackgroundThread

# No round takes so long, unless a file system hangs.
_STOP_SECONDS: Final = 10.0


class Rounds:
    """One named thread; `duty` is what nobody does any more once it has ended.

    A round over many things calls :meth:`beat` before each: many take long together, and only one of them can hang.
    """

    def __init__(
        self,
        name: str,
        duty: str,
        period: float,
        do: Callable[[], None],
        *,
        at_once: bool = False,
        stop_seconds: float | None = _STOP_SECONDS,
    ) -> None:
        """The first round comes after `period` seconds, or before them with `at_once`.

        A stop waits so long for a round that is under way, without `stop_seconds` until it has ended.
        """
        self.name = name
        self._duty = duty
        self._period = period
        self._do = do
        self._at_once = at_once
        self._stop_seconds = stop_seconds
        self._stop = threading.Event()
        self._thread: BackgroundThread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = BackgroundThread(self.name, self._run)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a round that is under way is waited for."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._stop_seconds)

    def beat(self) -> None:
        """The round goes on; called from inside of one."""
        if self._thread is not None:
            self._thread.heartbeat.beat()

    def failure(self) -> str | None:
        """Why there are no more rounds, or None; a failed round is done again after a pause."""
        if self._stop.is_set() or self._thread is None or self._thread.failure() is None:
            return None
        return f"the thread that {self._duty} hangs or has ended: {self._thread.failure()}"

    def _run(self) -> None:
        if self._at_once:
            self._do_round()
        while not self._stop.wait(self._period):
            self._do_round()

    def _do_round(self) -> None:
        assert self._thread is not None
        self.beat()
        self._do()
        self._thread.heartbeat.rest()
