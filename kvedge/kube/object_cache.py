"""The objects of one kind in memory, with indexes, and the rules by which versions follow each other.

Used by :class:`kvedge.kube.informer.Informer`, which feeds it. Touches nothing; safe for any number of threads.

Own writes come in ahead of the watch. Until the watch has caught up with one, older news of that object is ignored; a
version that the watch has passed already is no longer taken, or an object that was deleted meanwhile would come back.
The server's word always wins: after a list, and for objects without own writes, whatever it says is taken even when
its version is smaller, as a server that was restored from a backup may be behind what was seen before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Generic

from kvedge.kube.watches import T

Key = tuple[str, str]
Change = tuple[T | None, T | None]


def version_number(resource_version: str) -> int:
    """A resource version as a number, for the comparison that Kubernetes allows; 0 for one that is none."""
    return int(resource_version) if resource_version.isdigit() else 0


def _owner_uids(item: T) -> Iterable[str]:
    owner = item.metadata.controller_reference()
    return () if owner is None else (owner.uid,)


class ObjectCache(Generic[T]):
    """Objects by namespace and name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[Key, T] = {}
        self._own: dict[Key, int] = {}
        self._reached = 0
        self._values: dict[str, Callable[[T], Iterable[str]]] = {"owner": _owner_uids}
        self._indexes: dict[str, dict[str, set[Key]]] = {"owner": {}}

    def get(self, namespace: str, name: str) -> T | None:
        """The object of that name, or None."""
        return self._items.get((namespace, name))

    def list(self) -> Sequence[T]:
        """All objects."""
        with self._lock:
            return list(self._items.values())

    def find_indexed(self, index: str, value: str) -> Sequence[T]:
        """The objects that the index has under that value."""
        with self._lock:
            return [self._items[key] for key in self._indexes[index].get(value, ())]

    def add_index(self, index: str, values: Callable[[T], Iterable[str]]) -> None:
        """Find objects by what `values` says of each."""
        with self._lock:
            self._values[index] = values
            self._indexes[index] = {}
            for key, item in self._items.items():
                for value in values(item):
                    self._indexes[index].setdefault(value, set()).add(key)

    def take(self, item: T, gone: bool) -> Change[T] | None:
        """What the watch told; the change it makes, or None when an own write was newer or the same."""
        with self._lock:
            key = (item.metadata.namespace, item.metadata.name)
            version = version_number(item.metadata.resource_version)
            self._reached = max(self._reached, version)
            own = self._own.get(key)
            if own is not None and version < own:
                return None
            self._own.pop(key, None)
            if own is not None and version == own and not gone:
                return None
            old = self._items.get(key)
            if gone and old is None:
                return None
            self._put(key, None if gone else item)
            return old, None if gone else item

    def take_own(self, item: T) -> bool:
        """The answer of an own write; whether it was news."""
        with self._lock:
            key = (item.metadata.namespace, item.metadata.name)
            version = version_number(item.metadata.resource_version)
            known = self._items.get(key)
            passed = self._reached if known is None else version_number(known.metadata.resource_version)
            if version <= passed:
                return False
            self._own[key] = version
            self._put(key, item)
            return True

    def replace(self, items: Iterable[T], version: int) -> Sequence[Change[T]]:
        """A whole list as of `version`; the changes it makes. Own writes made during the listing and newer are kept."""
        with self._lock:
            listed = {(item.metadata.namespace, item.metadata.name): item for item in items}
            changes: list[Change[T]] = []
            for key in self._items.keys() | listed.keys():
                old, new = self._items.get(key), listed.get(key)
                if self._own.get(key, 0) > version:
                    continue
                if old is not None and new is not None and _same(old, new):
                    continue
                self._put(key, new)
                changes.append((old, new))
            self._reached = version
            return changes

    @property
    def version(self) -> int:
        """Up to which version everything is known."""
        return self._reached

    def note_reached(self, version: int) -> None:
        """The watch has told everything up to `version`."""
        with self._lock:
            self._reached = max(self._reached, version)

    def forget_own_writes(self) -> None:
        """Believe the server's next word about each object again."""
        with self._lock:
            self._own.clear()

    def _put(self, key: Key, item: T | None) -> None:
        # Who looks by name takes no lock: one object is replaced by the next, and is not missing in between.
        old = self._items.get(key)
        for index, values in self._values.items():
            by_value = self._indexes[index]
            for value in () if old is None else values(old):
                by_value[value].discard(key)
                if not by_value[value]:
                    del by_value[value]
            for value in () if item is None else values(item):
                by_value.setdefault(value, set()).add(key)
        if item is None:
            self._items.pop(key, None)
        else:
            self._items[key] = item


def _same(old: T, new: T) -> bool:
    # A UID is compared too: versions of a restored server may repeat.
    return old.metadata.uid == new.metadata.uid and old.metadata.resource_version == new.metadata.resource_version
