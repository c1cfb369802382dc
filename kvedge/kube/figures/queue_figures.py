"""What one queue of work counts, as client-go's do.

Made and used by work_queue.py, under the queue's lock. The queues of this process are found by their names.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Final, Protocol

from kvedge.kube.figures.histogram import Histogram
from kvedge.resources.usage.role_stats import QueueStats

# As client-go's, from ten nanoseconds to ten seconds.
_BOUNDS: Final = tuple(1e-8 * 10**power for power in range(10))


class QueueFigures:
    """Counts of one queue; moments are on the queue's clock."""

    def __init__(self) -> None:
        self._adds = 0
        self._retries = 0
        self._waited = Histogram(_BOUNDS)
        self._worked = Histogram(_BOUNDS)
        self._added: dict[Hashable, float] = {}
        self._begun: dict[Hashable, float] = {}

    def note_added(self, key: Hashable, now: float) -> None:
        """It needs work."""
        self._adds += 1
        self._added[key] = now

    def note_taken(self, key: Hashable, now: float) -> None:
        """Somebody begins to work on it."""
        self._waited.observe(max(0.0, now - self._added.pop(key, now)))
        self._begun[key] = now

    def note_finished(self, key: Hashable, now: float) -> None:
        """The work is done."""
        self._worked.observe(max(0.0, now - self._begun.pop(key, now)))

    def note_retry(self) -> None:
        """The work failed, and is tried again."""
        self._retries += 1

    def tell(self, name: str, depth: int, now: float) -> QueueStats:
        """What there is by now."""
        taking = [now - begun for begun in self._begun.values()]
        return QueueStats(
            name=name,
            depth=depth,
            adds=self._adds,
            retries=self._retries,
            longest=max(taking, default=0.0),
            unfinished=sum(taking),
            waited=self._waited.tell(),
            worked=self._worked.tell(),
        )


class CountedQueue(Protocol):
    """A queue that tells of itself."""

    def tell(self, name: str) -> QueueStats:
        """What it has counted."""


_lock = threading.Lock()
# A role that is started again has new queues by the same names: the newest one counts.
_queues: weakref.WeakValueDictionary[str, CountedQueue] = weakref.WeakValueDictionary()


def register_queue(name: str, queue: CountedQueue) -> None:
    """Have the queue told of by this name, as long as it is there."""
    with _lock:
        _queues[name] = queue


def tell_queues() -> list[QueueStats]:
    """What all queues of this process have counted, by name."""
    with _lock:
        queues = sorted(_queues.items())
    return [queue.tell(name) for name, queue in queues]
