"""The current objects and the recent changes in memory: what every read and every watch is answered from.

Lives in the API server's event loop: `publish` is called there with each commit of the store, and nothing here is
touched from another thread. No I/O.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored
from kvedge.standalone.apiserver.wire.api_errors import Expired

# A resource keeps at least so many changes, and more of them while they are small: a client that reconnects within
# minutes resumes, one that comes later lists again.
MIN_CHANGES = 100
MAX_CHANGES = 5000
MAX_CHANGE_BYTES = 1 << 20
# More than `MIN_CHANGES` are kept so long. It is for how long etcd keeps versions for a kube-apiserver.
KEPT_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 30.0
# Of so many changes the events are kept as they were sent: those before them are in every quick watcher's hands.
_MOST_ENCODED: Final = 32
# Bytes win over the number: a resource with large objects keeps fewer changes than `MIN_CHANGES`, down to none.
MOST_CHANGE_BYTES = 16 << 20
# The same for all resources together. The largest history gives way.
ALL_CHANGE_BYTES = 48 << 20

Listener = Callable[[Change], None]


class ResourceHistory:
    """One resource: its objects now, its recent changes, and who watches them."""

    def __init__(self, revision: int) -> None:
        self.objects: dict[tuple[str, str], Stored] = {}
        self.changes: deque[Change] = deque()
        self.listeners: set[Listener] = set()
        # Changes up to and including this revision are no longer (or were never) kept.
        self.compacted = revision
        # The memory of the changes beside the objects themselves.
        self.bytes = 0

    def apply(self, change: Change) -> None:
        """Take a change in and tell the listeners."""
        name = change.current.key[1:]
        if change.type is ChangeType.DELETED:
            self.objects.pop(name, None)
        else:
            self.objects[name] = change.current
        self.changes.append(change)
        self.bytes += _weight(change)
        if len(self.changes) > _MOST_ENCODED:
            self.changes[-1 - _MOST_ENCODED].encoded.clear()
        self._compact()
        for listener in tuple(self.listeners):
            listener(change)

    def since(self, revision: int) -> Iterator[Change]:
        """The changes after `revision`, oldest first."""
        if revision < self.compacted:
            raise Expired(f"too old resource version: {revision} ({self.compacted + 1})")
        return (change for change in tuple(self.changes) if change.revision > revision)

    def at(self, revision: int) -> dict[tuple[str, str], Stored]:
        """The objects as they were at `revision`: the later changes are undone."""
        if revision < self.compacted:
            raise Expired(f"The resourceVersion for the provided list is too old: {revision} ({self.compacted + 1})")
        objects = dict(self.objects)
        for change in reversed(self.changes):
            if change.revision <= revision:
                break
            if change.previous is None:
                objects.pop(change.current.key[1:], None)
            else:
                objects[change.current.key[1:]] = change.previous
        return objects

    def drop_oldest(self) -> None:
        """Keep the oldest change no longer: a client that asks for the changes after it is told to list again."""
        dropped = self.changes.popleft()
        self.compacted = dropped.revision
        self.bytes -= _weight(dropped)

    def drop_until(self, revision: int) -> None:
        """Keep of the changes up to this revision no more than belong to the last `MIN_CHANGES`."""
        while len(self.changes) > MIN_CHANGES and self.changes[0].revision <= revision:
            self.drop_oldest()

    def _compact(self) -> None:
        while self._is_too_much():
            self.drop_oldest()

    def _is_too_much(self) -> bool:
        count = len(self.changes)
        if count > MAX_CHANGES or self.bytes > MOST_CHANGE_BYTES:
            return True
        return self.bytes > MAX_CHANGE_BYTES and count > MIN_CHANGES


def _weight(change: Change) -> int:
    """The bytes that only the history keeps: the version before, and the new one as the event that watchers are sent.

    The new version itself is the object, or the version before the next change.
    """
    previous = len(change.previous.body) if change.previous is not None else 0
    return previous + len(change.current.body)


class _Look(NamedTuple):
    """What was the last revision at a moment on the monotonic clock."""

    at: float
    revision: int


class ObjectCache:
    """All resources. `revision` is the last one published."""

    def __init__(
        self, objects: Iterable[Stored], revision: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.revision = revision
        self._monotonic = monotonic
        # The first one is the newest of those that are old enough, once there is such a one.
        self._looks: deque[_Look] = deque([_Look(monotonic(), revision)])
        # Nothing is known of the time before the start, not even for resources that appear later.
        self._first = revision
        self._histories: dict[str, ResourceHistory] = {}
        self._everything: list[Listener] = []
        self._by_owner: dict[str, dict[ObjectKey, Stored]] = {}
        # Of all histories.
        self._bytes = 0
        for stored in objects:
            self.find_history(stored.key.resource).objects[stored.key[1:]] = stored
            self._index(stored)

    def find_history(self, resource: str) -> ResourceHistory:
        """The one resource's part."""
        known = self._histories.get(resource)
        if known is None:
            known = self._histories[resource] = ResourceHistory(self._first)
        return known

    def get(self, key: ObjectKey) -> Stored | None:
        """The object as it is now."""
        history = self._histories.get(key.resource)
        return history.objects.get(key[1:]) if history else None

    def in_namespace(self, resource: str, namespace: str = "") -> list[Stored]:
        """The objects of a resource, of one namespace if it is given, by namespace and name."""
        objects = self.find_history(resource).objects
        return in_order(stored for stored in objects.values() if not namespace or stored.key.namespace == namespace)

    def at(self, resource: str, revision: int, namespace: str = "") -> list[Stored]:
        """The objects as they were at a revision.

        Raises:
            Expired: the changes since then are not kept any more.
        """
        objects = self.find_history(resource).at(revision)
        return in_order(stored for stored in objects.values() if not namespace or stored.key.namespace == namespace)

    def resources(self) -> list[str]:
        """The resources that have been seen."""
        return list(self._histories)

    def find_owned_by(self, uid: str) -> list[Stored]:
        """The objects that name this UID as an owner."""
        return list(self._by_owner.get(uid, {}).values())

    def owner_uids(self) -> list[str]:
        """All UIDs that some object names as its owner."""
        return list(self._by_owner)

    def on_change(self, listener: Listener) -> None:
        """Call `listener` with every change from now on, in order."""
        self._everything.append(listener)

    def publish(self, changes: Sequence[Change]) -> None:
        """Take in what the store committed, in its order."""
        for change in changes:
            self.revision = change.revision
            if change.previous is not None:
                self._unindex(change.previous)
            if change.type is not ChangeType.DELETED:
                self._index(change.current)
            self._apply(change)
            for listener in self._everything:
                listener(change)
        now = self._monotonic()
        if now >= self._looks[-1].at + _LOOK_SECONDS:
            self._drop_old(now)

    def _drop_old(self, now: float) -> None:
        self._looks.append(_Look(now, self.revision))
        while self._looks[1].at <= now - KEPT_SECONDS:
            self._looks.popleft()
        if self._looks[0].at <= now - KEPT_SECONDS:
            for history in self._histories.values():
                self._bytes -= history.bytes
                history.drop_until(self._looks[0].revision)
                self._bytes += history.bytes

    def _apply(self, change: Change) -> None:
        history = self.find_history(change.current.key.resource)
        self._bytes -= history.bytes
        history.apply(change)
        self._bytes += history.bytes
        while self._bytes > ALL_CHANGE_BYTES:
            largest = max(self._histories.values(), key=lambda each: each.bytes)
            self._bytes -= largest.bytes
            largest.drop_oldest()
            self._bytes += largest.bytes

    def _index(self, stored: Stored) -> None:
        for reference in stored.meta.owner_references or ():
            self._by_owner.setdefault(reference.uid, {})[stored.key] = stored

    def _unindex(self, stored: Stored) -> None:
        for reference in stored.meta.owner_references or ():
            owned = self._by_owner.get(reference.uid, {})
            owned.pop(stored.key, None)
            if not owned:
                self._by_owner.pop(reference.uid, None)


def in_order(objects: Iterable[Stored]) -> list[Stored]:
    """By namespace and name, as etcd's keys would come."""
    return sorted(objects, key=lambda stored: stored.key[1:])
