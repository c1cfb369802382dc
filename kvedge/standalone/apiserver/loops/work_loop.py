"""A loop over keys: each is worked on after it was named, one at a time, again after a while when that failed.

Used by the server's own loops, in its event loop. Touches nothing by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from kvedge.runtime.background import tell_trouble
from kvedge.runtime.background_tasks import background_task
from kvedge.standalone.apiserver.wire.api_errors import ApiError, NotFound

log = logging.getLogger(__name__)

K = TypeVar("K")
_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 30.0


class WorkLoop(Generic[K]):
    """Calls `work(key)` for each key that was added; a key that waits already is not added twice."""

    def __init__(self, name: str, work: Callable[[K], Awaitable[None]]) -> None:
        self._name = name
        self._work = work
        self._waiting: dict[K, None] = {}
        self._filled = asyncio.Event()
        self._failures: dict[K, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()

    def start(self) -> None:
        """Begin to work."""
        self._task = background_task(self._name, self._run)

    def stop(self) -> None:
        """Stop at the next point where the work waits for something."""
        for timer in self._timers:
            timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def add(self, key: K) -> None:
        """Have a key worked on."""
        self._waiting[key] = None
        self._filled.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Have a key worked on later."""
        loop = asyncio.get_running_loop()

        def add_due() -> None:
            self._timers.discard(timer)
            self.add(key)

        timer = loop.call_later(seconds, add_due)
        self._timers.add(timer)

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            while self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                await self._work_on(key)
            self._filled.clear()

    async def _work_on(self, key: K) -> None:
        try:
            await self._work(key)
        except NotFound:
            # It is gone, which is what most of this work is about.
            self._failures.pop(key, None)
        except ApiError as error:
            self._retry(key, str(error))
        except Exception as error:  # noqa: BLE001 - told, and tried again
            # One odd object must not keep the loop from all others.
            tell_trouble(f"{self._name}: {key}", error)
            self._retry(key, type(error).__name__)
        else:
            self._failures.pop(key, None)

    def _retry(self, key: K, why: str) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(_FIRST_DELAY * 2**failures, _LONGEST_DELAY)
        level = logging.WARNING if failures > 3 else logging.DEBUG
        log.log(level, "%s: %s: %s; again in %.1f s", self._name, key, why, delay)
        self.add_after(key, delay)
