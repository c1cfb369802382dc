"""Guests that come to this node from another box: which migrations may be spoken of, what is answered, what was heard.

The target's steps say what to answer, from what the VMI says; the relay asks in its event loop, and brings what the
source has said. Nothing is kept: the source repeats its words.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from kvedge.handler.launchers.launcher_connections import Key
from kvedge.handler.launchers.relay_core import DoorError
from kvedge.resources.moves.crossing import SourceWords, TargetWords, crossing_server_name


class _Entry(NamedTuple):
    """`heard_at` is when the source has spoken last, or was first awaited, on the monotonic clock."""

    key: Key
    answer: TargetWords
    heard: SourceWords | None
    heard_at: float


class CrossingDesk:
    """All crossings to one node; every method may be called from any thread."""

    def __init__(
        self,
        wake: Callable[[Key], None],
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wake` has a VMI looked at; `on_change` is called when the first one is expected, or the last one is not."""
        self._wake = wake
        self._on_change = on_change
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    @property
    def is_open(self) -> bool:
        """Whether any guest is expected from another box."""
        return bool(self._entries)

    def expect(self, uid: str, key: Key, answer: TargetWords) -> SourceWords | None:
        """Answer so from now on; what the source has said last, None when it has said nothing to this handler."""
        with self._lock:
            before = self._entries.get(uid)
            is_same = before is not None and before.key == key
            heard = before.heard if before is not None and is_same else None
            heard_at = before.heard_at if before is not None and is_same else self._clock()
            self._entries[uid] = _Entry(key, answer, heard, heard_at)
        if before is None:
            self._on_change()
        return heard

    def silent_seconds(self, uid: str) -> float:
        """For how long the source of an awaited guest has said nothing to this handler."""
        with self._lock:
            found = self._entries.get(uid)
        return 0.0 if found is None else self._clock() - found.heard_at

    def forget(self, uid: str) -> None:
        """Nothing is said of this migration any more."""
        with self._lock:
            before = self._entries.pop(uid, None)
        if before is not None:
            self._on_change()

    def take_words(self, key: Key, uid: str, hosts: Collection[str], words: SourceWords) -> TargetWords:
        """The source has said this; what it is answered.

        Raises:
            DoorError: 404 for a migration that nobody awaits, or not by this peer.
        """
        with self._lock:
            found = self._entries.get(uid)
            if found is None or found.key != key or crossing_server_name(uid) not in hosts:
                raise DoorError(404, f"no guest {'/'.join(key)} is expected from there by this migration")
            is_news = found.heard != words
            self._entries[uid] = found._replace(heard=words, heard_at=self._clock())
        if is_news:
            self._wake(key)
        return found.answer
