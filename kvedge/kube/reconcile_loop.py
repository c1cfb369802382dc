"""Workers that bring one object after the other to where it should be.

Used by controller, handler and node agent. The function handed in reads its objects from caches, decides and acts for
one key; it is called again when it asks for that (:class:`Again`), when a key is added, and with a growing delay when
it failed. One key is never in two workers at once.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import Struct

from kvedge.kube.errors import Conflict, KubeError, Unauthenticated, Unavailable
from kvedge.kube.figures.queue_figures import register_queue
from kvedge.kube.work_queue import Key, WorkQueue
from kvedge.runtime.background import BackgroundThread, tell_trouble

log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 60.0
_STOP_SECONDS: Final = 1.0
# A pass is a handful of calls, of which none may take as long, a launcher's included; a pass that takes so long hangs.
STUCK_SECONDS: Final = 300.0


class Again(Struct, frozen=True):
    """Come back to this object after so many seconds, even when nothing about it changes."""

    after: float


Reconcile: TypeAlias = Callable[[Key], Again | None]


class ReconcileLoop:
    """Named worker threads over one queue."""

    def __init__(self, name: str, reconcile: Reconcile, workers: int = 1, queue: WorkQueue | None = None) -> None:
        """`queue` is there before the loop where those that `reconcile` needs fill it."""
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self._threads: list[BackgroundThread] = []
        self._failures: dict[Key, int] = {}
        self._begun: dict[Key, float] = {}
        self._lock = threading.Lock()
        self._stopping = False
        self._paused = False
        # The keys that came while it paused.
        self._parked: set[Key] = set()
        # An empty queue is as false as none.
        self.queue = WorkQueue() if queue is None else queue
        register_queue(name, self.queue)

    def start(self) -> None:
        """Begin to work; a second call, or one after :meth:`stop`, does nothing."""
        with self._lock:
            if self._threads or self._stopping:
                return
            for number in range(self._workers):
                thread = BackgroundThread(f"{self._name}-{number}", self._work)
                thread.start()
                self._threads.append(thread)

    def stop(self) -> None:
        """Take nothing new; a pass that waits for a slow server ends by its own deadline, in a daemon thread."""
        with self._lock:
            self._stopping = True
        self.queue.close()
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def pause(self) -> None:
        """Begin no further pass, until :meth:`resume`; keys that are added meanwhile are kept."""
        with self._lock:
            self._paused = True

    def resume(self) -> None:
        """Go on, with all that was noted."""
        with self._lock:
            self._paused = False
            parked, self._parked = self._parked, set()
        for key in parked:
            self.queue.add(key)

    def add(self, key: Key) -> None:
        """Something about that object has changed."""
        self.queue.add(key)

    def busy_seconds(self) -> float:
        """How long the oldest pass that still runs has taken, for a watchdog; 0 when none runs."""
        now = time.monotonic()
        with self._lock:
            return max((now - begun for begun in self._begun.values()), default=0.0)

    def failure(self) -> str | None:
        """Why the loop no longer works, or None: a worker has ended, or hangs."""
        if self._stopping:
            return None
        if not all(thread.is_alive() for thread in self._threads):
            return f"a worker of {self._name} has ended"
        stuck = self.busy_seconds()
        return f"a pass has been stuck for {stuck:.0f} s" if stuck > STUCK_SECONDS else None

    def _work(self) -> None:
        while (key := self.queue.take()) is not None:
            with self._lock:
                if self._paused:
                    self._parked.add(key)
                    self.queue.finish(key)
                    continue
                self._begun[key] = time.monotonic()
            try:
                self._pass_once(key)
            finally:
                with self._lock:
                    self._begun.pop(key, None)
                self.queue.finish(key)

    def _pass_once(self, key: Key) -> None:
        try:
            again = self._reconcile(key)
        except Conflict as error:
            # The pass had read an old version: the watch brings the newer one, so this is no failure worth a warning.
            self._retry(key, error, logging.DEBUG)
        except KubeError as error:
            # That nobody knows us has been told already, and all objects would say it.
            self._retry(key, error, logging.DEBUG if isinstance(error, Unauthenticated) else logging.WARNING)
        except Exception as error:  # noqa: BLE001 - told, and tried again
            # A defect that one object triggers must not stop the work on all others; the log has the trace.
            tell_trouble(f"{self._name}: {key}", error)
            self._retry(key, error, logging.DEBUG)
        else:
            with self._lock:
                self._failures.pop(key, None)
            if again is not None:
                self.queue.add_after(key, again.after)

    def _retry(self, key: Key, error: Exception, level: int) -> None:
        with self._lock:
            count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = backoff(count, random.random())
        if isinstance(error, Unavailable) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        facts = {"loop": self._name, "key": str(key), "again_in": round(delay, 2), "error": str(error)}
        log.log(level, "will try again", extra={"facts": facts})
        self.queue.count_retry()
        self.queue.add_after(key, delay)


def backoff(failures: int, jitter: float) -> float:
    """Seconds before the next try after so many failures in a row; `jitter` is between 0 and 1."""
    delay = _FIRST_DELAY * 2.0 ** min(failures - 1, 20)
    return float(min(_LONGEST_DELAY, delay) * (0.75 + jitter / 2))
