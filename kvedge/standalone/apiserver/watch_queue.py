"""The events that one watcher still has to be sent: selected, in order, bounded.

Filled by the cache's listeners, emptied by `watch_stream`; both in the API server's event loop. No I/O.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from kvedge.standalone.apiserver.list_rules import ListOptions, selects
from kvedge.standalone.apiserver.stored import Change, ChangeType

# A client that leaves so many events unread is cut off: it lists again, and the others are not held up.
QUEUE_LIMIT: Final = 8192
# The same for few but large ones. A single object never counts as too much.
QUEUE_BYTES: Final = 16 << 20


class Delivery(NamedTuple):
    """A change, and what it is to this watcher."""

    change: Change
    type: ChangeType


class WatchQueue:
    """A queue of deliveries. `on_overflow` is called once, when the watcher has fallen too far behind."""

    def __init__(self, namespace: str, options: ListOptions, on_overflow: Callable[[], None]) -> None:
        self._namespace = namespace
        self._options = options
        self._on_overflow = on_overflow
        self._waiting: deque[Delivery] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self._overflown = False
        self.closed = False

    def offer(self, change: Change) -> None:
        """Take a change in if it concerns the watcher."""
        if self._overflown or self.closed:
            return
        kind = delivered_as(change, self._namespace, self._options)
        if kind is None:
            return
        size = len(change.current.body)
        if len(self._waiting) >= QUEUE_LIMIT or (self._waiting and self._bytes + size > QUEUE_BYTES):
            self._overflown = True
            self._waiting.clear()
            self._on_overflow()
            return
        self._waiting.append(Delivery(change, kind))
        self._bytes += size
        self._filled.set()

    def close(self) -> None:
        """Let the watch end: nothing more will be taken in."""
        self.closed = True
        self._filled.set()

    async def take(self, seconds: float) -> list[Delivery]:
        """All that waits; when nothing does, what comes within so many seconds."""
        if not self._waiting:
            try:
                async with asyncio.timeout(seconds):
                    await self._filled.wait()
            except TimeoutError:
                return []
        return self.take_now()

    def take_now(self) -> list[Delivery]:
        """All that waits."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        self._filled.clear()
        return taken


def delivered_as(change: Change, namespace: str, options: ListOptions) -> ChangeType | None:
    """What a change is to someone who sees only what the selectors choose: objects may enter and leave the
    selection.
    """
    if namespace and change.current.key.namespace != namespace:
        return None
    is_in = change.type is not ChangeType.DELETED and selects(options, change.current)
    was_in = change.previous is not None and selects(options, change.previous)
    if is_in:
        return ChangeType.MODIFIED if was_in else ChangeType.ADDED
    return ChangeType.DELETED if was_in else None
