"""The event loop's view of the store: current objects, served kinds, and commits that can be awaited.

Everything behind the dispatcher reads and writes through it. Lives in the API server's event loop; the store's writer
thread reaches it only by `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN, find_built_in
from kvedge.standalone.apiserver.kinds.custom.crd_parts import SharedParts
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex, ServedKind, kinds_of_crd
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.object_store import ObjectStore, StoreFull, StoreWriteFailed
from kvedge.standalone.apiserver.store.stored import LARGEST_OBJECT, Change, ObjectKey, ObjectTooLarge, Stored, Write
from kvedge.standalone.apiserver.wire.api_errors import InsufficientStorage, ServiceUnavailable, TooLarge
from kvedge.standalone.apiserver.wire.outlasting import outlast

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


class ObjectHub:
    """Cache, kinds and commits. `kinds` is replaced, never altered, when a CRD changes."""

    def __init__(self, store: ObjectStore, objects: Sequence[Stored]) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self.cache = ObjectCache(objects, store.revision)
        self.kinds = KindIndex(BUILT_IN)
        self._kind_listeners: list[Callable[[], None]] = []
        self._parts = SharedParts()
        # Of each CRD, by its revision.
        self._custom: dict[tuple[ObjectKey, int], list[ServedKind]] = {}
        self._rebuild_kinds()
        self.cache.on_change(self._notice)
        store.start(self._apply_commit)

    async def commit(self, write: Write) -> Change:
        """Store a write; when this returns it is on disk and in the cache. Not even a cancelled caller leaves earlier.

        Raises:
            RevisionMismatch: somebody else was first.
            TooLarge: the object has grown beyond what is stored.
            InsufficientStorage, ServiceUnavailable: the disk is full, or does not take it.
        """
        future = asyncio.wrap_future(self._store.submit(write))
        try:
            # Shielded: a client that hangs up must not undo what others may already have seen.
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # The write lands all the same. A ledger that has taken something for it, as of a quota, keeps that until
            # then.
            await outlast(future)
            raise
        except ObjectTooLarge as error:
            raise TooLarge(LARGEST_OBJECT) from error
        except StoreFull as error:
            raise InsufficientStorage(str(error)) from error
        except StoreWriteFailed as error:
            raise ServiceUnavailable(str(error)) from error

    def get(self, key: ObjectKey) -> Stored | None:
        """The object as it is now."""
        return self.cache.get(key)

    def kind_of(self, stored: Stored) -> ServedKind | None:
        """The kind that a stored object is an object of, in its storage version."""
        return self.kinds.find_stored(stored.key.resource)

    def on_kinds_changed(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a kind is added, changed or removed."""
        self._kind_listeners.append(listener)

    def _apply_commit(self, changes: Sequence[Change]) -> None:
        """Bring changes into the cache.

        The writer thread calls this before the futures of these changes are done: a caller that awaits one finds its
        change in the cache.
        """
        self._loop.call_soon_threadsafe(self.cache.publish, changes)

    def _notice(self, change: Change) -> None:
        if change.current.key.resource == CRDS:
            self._rebuild_kinds()
            for listener in self._kind_listeners:
                listener()

    def _rebuild_kinds(self) -> None:
        stored = self.cache.in_namespace(CRDS)
        known, self._custom = self._custom, {}
        for each in stored:
            kinds = known.get((each.key, each.revision))
            # One that gives no kinds was read as well.
            self._custom[each.key, each.revision] = self._read_kinds(each) if kinds is None else kinds
        self.kinds = KindIndex([*BUILT_IN, *(kind for kinds in self._custom.values() for kind in kinds)])

    def _read_kinds(self, stored: Stored) -> list[ServedKind]:
        crd = stored.load()
        if not _is_established(crd):
            return []
        # One that was made before the box had the kind itself, whose rules hold, is none.
        return [kind for kind in kinds_of_crd(self._parts.share(crd)) if find_built_in(kind.storage) is None]


def _is_established(crd: dict[str, object]) -> bool:
    status = crd.get("status")
    conditions = status.get("conditions") or [] if isinstance(status, dict) else []
    return any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions)
