"""The current objects and the recent changes in memory: what every read and every watch is answered from.

Lives in the API server's event loop: `publish` is called there with each commit of the store, and nothing here is
touched from another thread. No I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from kvedge.standalone.apiserver.api_errors import Expired
from kvedge.standalone.apiserver.stored import Change, ChangeType, ObjectKey, Stored

# A resource keeps at least so many changes, and more of them while they are small: a client that reconnects within
# minutes resumes, one that comes later lists again.
MIN_CHANGES = 200
MAX_CHANGES = 5000
MAX_CHANGE_BYTES = 2 << 20

Listener = Callable[[Change], None]


class ResourceHistory:
    """One resource: its objects now, its recent changes, and who watches them."""

    def __init__(self, revision: int) -> None:
        self.objects: dict[tuple[str, str], Stored] = {}
        self.changes: deque[Change] = deque()
        self.listeners: set[Listener] = set()
        # Changes up to and including this revision are no longer (or were never) kept.
        self.compacted = revision
        self._bytes = 0

    def apply(self, change: Change) -> None:
        """Take a change in and tell the listeners."""
        name = change.current.key[1:]
        if change.type is ChangeType.DELETED:
            self.objects.pop(name, None)
        else:
            self.objects[name] = change.current
        self.changes.append(change)
        self._bytes += len(change.current.body)
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

    def _compact(self) -> None:
        while len(self.changes) > MAX_CHANGES or (self._bytes > MAX_CHANGE_BYTES and len(self.changes) > MIN_CHANGES):
            dropped = self.changes.popleft()
            self.compacted = dropped.revision
            self._bytes -= len(dropped.current.body)


class ObjectCache:
    """All resources. `revision` is the last one published."""

    def __init__(self, objects: Iterable[Stored], revision: int) -> None:
        self.revision = revision
        # What happened before the start is not known any more, for resources that appear later neither.
        self._first = revision
        self._histories: dict[str, ResourceHistory] = {}
        self._everything: list[Listener] = []
        self._by_owner: dict[str, dict[ObjectKey, Stored]] = {}
        for stored in objects:
            self.history(stored.key.resource).objects[stored.key[1:]] = stored
            self._index(stored)

    def history(self, resource: str) -> ResourceHistory:
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
        objects = self.history(resource).objects
        return in_order(stored for stored in objects.values() if not namespace or stored.key.namespace == namespace)

    def at(self, resource: str, revision: int, namespace: str = "") -> list[Stored]:
        """The objects as they were at a revision.

        Raises:
            Expired: the changes since then are not kept any more.
        """
        objects = self.history(resource).at(revision)
        return in_order(stored for stored in objects.values() if not namespace or stored.key.namespace == namespace)

    def resources(self) -> list[str]:
        """The resources that have been seen."""
        return list(self._histories)

    def owned_by(self, uid: str) -> list[Stored]:
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
            self.history(change.current.key.resource).apply(change)
            for listener in self._everything:
                listener(change)

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
