"""A queue of keys: each key is in it once, and is handed to one worker at a time.

Used by :class:`kvedge.kube.reconcile_loop.ReconcileLoop`. Touches no clock but the monotonic one. Its bound is the
number of objects, as a key that waits already is not added again.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kvedge.kube.figures.queue_figures import QueueFigures
from kvedge.resources.usage.role_stats import QueueStats


class Key(NamedTuple):
    """Which object is meant; `namespace` is empty for a cluster-scoped kind."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class WorkQueue:
    """Keys that need work, now or later."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._ready: deque[Key] = deque()
        self._waiting: set[Key] = set()
        self._in_work: set[Key] = set()
        # When a key is due; the heap may hold older entries of a key, which do not count.
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._closed = False
        self._figures = QueueFigures()

    def add(self, key: Key) -> None:
        """Have `key` worked on as soon as a worker is free; a key in work is handed out again after it."""
        with self._changed:
            self._add(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Have `key` worked on in that many seconds, or earlier when it was asked for earlier."""
        if seconds <= 0:
            self.add(key)
            return
        with self._changed:
            due = self._monotonic() + seconds
            if self._due.get(key, due) < due:
                return
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))
            self._changed.notify()

    def take(self, timeout: float | None = None) -> Key | None:
        """The next key, to be given back by :meth:`finish`; None when the queue is closed or `timeout` is over."""
        deadline = None if timeout is None else self._monotonic() + timeout
        with self._changed:
            while not self._closed:
                self._promote()
                if self._ready:
                    key = self._ready.popleft()
                    self._waiting.discard(key)
                    self._in_work.add(key)
                    self._figures.note_taken(key, self._monotonic())
                    return key
                wait = self._next_wait(deadline)
                if wait is not None and wait <= 0:
                    return None
                self._changed.wait(wait)
            return None

    def finish(self, key: Key) -> None:
        """The worker has finished with `key`."""
        with self._changed:
            self._in_work.discard(key)
            self._figures.note_finished(key, self._monotonic())
            if key in self._waiting:
                self._ready.append(key)
                self._changed.notify()

    def count_retry(self) -> None:
        """The work on a key failed, and is tried again."""
        with self._changed:
            self._figures.note_retry()

    def tell(self, name: str) -> QueueStats:
        """What the queue of that name has counted."""
        with self._changed:
            self._promote()
            return self._figures.tell(name, len(self._waiting), self._monotonic())

    def close(self) -> None:
        """Hand nothing out any more; waiting workers return."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        """How many keys need work now."""
        with self._changed:
            self._promote()
            return len(self._waiting)

    def _add(self, key: Key) -> None:
        self._due.pop(key, None)
        if key in self._waiting or self._closed:
            return
        self._waiting.add(key)
        self._figures.note_added(key, self._monotonic())
        if key not in self._in_work:
            self._ready.append(key)
            self._changed.notify()

    def _promote(self) -> None:
        now = self._monotonic()
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                self._add(key)

    def _next_wait(self, deadline: float | None) -> float | None:
        """Seconds until something is due or the deadline; zero or less only when the deadline has passed."""
        now = self._monotonic()
        if deadline is not None and deadline <= now:
            return 0.0
        moments = [moment for moment in (deadline, self._heap[0][0] if self._heap else None) if moment is not None]
        return max(0.001, min(moments) - now) if moments else None
