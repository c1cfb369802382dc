"""The present DomainStatus, for everyone who asks or waits.

Written by `domain_view`, read by the gRPC server's threads. A watcher that is slow misses states in between, never the
latest one: what it has not taken yet is replaced, so nothing piles up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from kvedge.rpc.launcher_pb2 import DomainStatus


class StatusBoard:
    """One status with a sequence number that grows with each change."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._status = DomainStatus(sequence=1)
        self._closed = False

    @property
    def status(self) -> DomainStatus:
        """The latest status; not to be changed by the caller."""
        with self._changed:
            return self._status

    def publish(self, status: DomainStatus) -> DomainStatus:
        """Make `status` the latest one unless it says nothing new; the sequence number is filled in here."""
        with self._changed:
            status.sequence = self._status.sequence
            if status != self._status:
                status.sequence += 1
                self._status = status
                self._changed.notify_all()
            return self._status

    def close(self) -> None:
        """End all watches after they have delivered the latest status."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Make watchers look whether they are still wanted."""
        with self._changed:
            self._changed.notify_all()

    def watch(self, wanted: threading.Event) -> Iterator[DomainStatus]:
        """The present status at once, then each later one, until `wanted` is cleared or the board is closed."""
        seen = 0
        while (status := self._await_next(seen, wanted)) is not None:
            seen = status.sequence
            yield status

    def _await_next(self, seen: int, wanted: threading.Event) -> DomainStatus | None:
        with self._changed:
            self._changed.wait_for(lambda: self._status.sequence > seen or self._closed or not wanted.is_set())
            newer = wanted.is_set() and self._status.sequence > seen
            return self._status if newer else None
