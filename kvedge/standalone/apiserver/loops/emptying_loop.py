"""Deletes what a namespace or a CRD holds before it goes itself.

Runs in the API server's event loop; started by `server_parts`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.built_in import find_built_in
from kvedge.standalone.apiserver.kinds.custom.crd_status import CLEANUP_FINALIZER
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.store.object_hub import CRDS, ObjectHub
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored
from kvedge.standalone.apiserver.wire.api_errors import NotFound
from kvedge.standalone.apiserver.writing.object_remover import split_into_portions
from kvedge.standalone.apiserver.writing.server_actor import ServerActor

_NAMESPACES: Final = "namespaces"
_AT_ONCE: Final = 64


class EmptyingLoop:
    """Namespaces and CRDs that are being deleted: content first."""

    def __init__(self, hub: ObjectHub, actor: ServerActor) -> None:
        self._hub = hub
        self._actor = actor
        self._loop: WorkLoop[ObjectKey] = WorkLoop("namespace and CRD cleanup", self._empty_one)

    def start(self) -> None:
        """Go on with what was being deleted at the last stop, and look at what changes."""
        self._hub.cache.on_change(self._notice)
        for resource in (_NAMESPACES, CRDS):
            for stored in self._hub.cache.in_namespace(resource):
                if stored.meta.deletion_timestamp:
                    self._loop.add(stored.key)
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop()

    def _notice(self, change: Change) -> None:
        stored = change.current
        if stored.key.resource in (_NAMESPACES, CRDS):
            if stored.meta.deletion_timestamp and change.type is not ChangeType.DELETED:
                self._loop.add(stored.key)
        elif change.type is ChangeType.DELETED:
            for holder in (ObjectKey(_NAMESPACES, "", stored.key.namespace), ObjectKey(CRDS, "", stored.key.resource)):
                known = self._hub.get(holder)
                if known is not None and known.meta.deletion_timestamp:
                    self._loop.add(holder)

    async def _empty_one(self, key: ObjectKey) -> None:
        stored = self._hub.get(key)
        if stored is None or not stored.meta.deletion_timestamp:
            return
        waiting = [item for item in self._content(key) if not item.meta.deletion_timestamp]
        for several in split_into_portions(waiting, _AT_ONCE):
            await asyncio.gather(*(self._delete(item) for item in several))
        if self._content(key):
            # The remaining objects wait for finalizers or a kubelet; the loop hears of their end.
            return
        if key.resource == CRDS:
            await self._actor.remove_finalizer(stored, CLEANUP_FINALIZER)
        else:
            await self._actor.change(stored, _without_content, "finalize")

    async def _delete(self, item: Stored) -> None:
        try:
            await self._actor.delete(item, "Background")
        except NotFound:
            return

    def _content(self, key: ObjectKey) -> list[Stored]:
        cache = self._hub.cache
        if key.resource == CRDS:
            # A CRD is named as its resource is stored. Objects of a kind that the server has itself are not its own.
            return [] if find_built_in(key.name) is not None else cache.in_namespace(key.name)
        return [
            stored
            for resource in cache.resources()
            for stored in cache.in_namespace(resource, key.name)
            # The name of a cluster-wide object may be that of a namespace, its namespace never is.
            if stored.key.namespace
        ]


def _without_content(namespace: JsonObject) -> JsonObject:
    namespace.setdefault("spec", {})["finalizers"] = []
    return namespace
