"""The events that one watcher still has to be sent: selected, in order, bounded.

Filled by the cache's listeners, emptied by `watch_stream`; both in the API server's event loop. No I/O.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kvedge.standalone.apiserver.requests.list_rules import ListOptions, selects
from kvedge.standalone.apiserver.store.stored import Change, ChangeType

# A client that leaves so many events unread is cut off: it lists again, and the others are not held up.
QUEUE_LIMIT: Final = 8192
# The same for few but large ones. A single object never counts as too much.
QUEUE_BYTES: Final = 16 << 20
# A client that takes its time may keep so much in memory after the history has let go of it.
SPARED_BYTES: Final = 64 << 10
# So much is taken at once: what is being sent counts no more as waiting, so it is little.
_TAKEN_BYTES: Final = 256 << 10


class Delivery(NamedTuple):
    """A change, and what it is to this watcher."""

    change: Change
    type: ChangeType


class WatchQueue:
    """A queue of deliveries. `on_overflow` is called once, when the watcher has fallen too far behind."""

    def __init__(
        self,
        namespace: str,
        options: ListOptions,
        on_overflow: Callable[[], None],
        compacted: Callable[[], int] = lambda: -1,
    ) -> None:
        """`compacted()` is the revision up to which the history keeps no changes; -1 when it keeps all of them."""
        self._namespace = namespace
        self._options = options
        self._on_overflow = on_overflow
        self._compacted = compacted
        self._waiting: deque[Delivery] = deque()
        self._bytes = 0
        # The oldest revision that the client is being sent, None while it has taken everything; and how many bytes.
        self._sending: int | None = None
        self._sending_bytes = 0
        self._filled = asyncio.Event()
        self._overflown = False
        self.closed = False

    def offer(self, change: Change) -> None:
        """Take a change in if it concerns the watcher."""
        if self._overflown or self.closed:
            return
        if self._is_behind():
            self._give_up()
            return
        kind = judge_change(change, self._namespace, self._options)
        if kind is None:
            return
        size = len(change.current.body)
        if len(self._waiting) >= QUEUE_LIMIT or (self._waiting and self._bytes + size > QUEUE_BYTES):
            self._give_up()
            return
        self._waiting.append(Delivery(change, kind))
        self._bytes += size
        self._filled.set()

    def fill(self, deliveries: Iterable[Delivery]) -> None:
        """Begin with what the watcher has missed, which the history keeps."""
        self._waiting.extend(deliveries)
        self._bytes = sum(len(delivery.change.current.body) for delivery in self._waiting)

    def begin_state(self, revision: int, size: int) -> None:
        """The watcher is being sent the objects as they were at a revision, until it takes the first changes."""
        self._sending, self._sending_bytes = revision + 1, size

    def close(self) -> None:
        """Let the watch end: nothing more will be taken in."""
        self.closed = True
        self._filled.set()

    async def take(self, seconds: float) -> list[Delivery]:
        """What waits, piece by piece; when nothing does, what comes within so many seconds."""
        self._sending = None
        if not self._waiting:
            try:
                async with asyncio.timeout(seconds):
                    await self._filled.wait()
            except TimeoutError:
                return []
        return self.take_now()

    def take_now(self) -> list[Delivery]:
        """The next piece of what waits."""
        taken: list[Delivery] = []
        size = 0
        while self._waiting and (not taken or size + len(self._waiting[0].change.current.body) <= _TAKEN_BYTES):
            taken.append(self._waiting.popleft())
            size += len(taken[-1].change.current.body)
        self._bytes -= size
        self._sending, self._sending_bytes = (taken[0].change.revision if taken else None), size
        if not self._waiting:
            self._filled.clear()
        return taken

    @property
    def is_empty(self) -> bool:
        """Whether everything has been taken."""
        return not self._waiting

    def _is_behind(self) -> bool:
        """Whether the client reads so slowly that the history has let go of what it is being sent.

        Then only this queue would keep those versions. So all queues together hold what the history holds, and little
        more, however many clients are slow.
        """
        if self._sending is None or self._sending > self._compacted():
            return False
        return self._bytes + self._sending_bytes > SPARED_BYTES

    def _give_up(self) -> None:
        self._overflown = True
        self._waiting.clear()
        self._on_overflow()


def judge_change(change: Change, namespace: str, options: ListOptions) -> ChangeType | None:
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
