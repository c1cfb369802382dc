"""What the server's own loops do to objects: through the same write and delete paths as any client's requests.

Used by the garbage collector, the loops that empty namespaces and CRDs, and TokenRoutes. Admission is asked as for
anybody, except that nobody may keep the server from taking its own finalizers off.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.requests.deletion_rules import DeleteOptions
from kvedge.standalone.apiserver.requests.request_context import SERVER, RequestContext, WriteOptions
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Stored
from kvedge.standalone.apiserver.wire.api_errors import AlreadyExists
from kvedge.standalone.apiserver.wire.large_work import LargeWork
from kvedge.standalone.apiserver.writing.object_remover import ObjectRemover
from kvedge.standalone.apiserver.writing.object_writer import ObjectWriter, Produce

_MANAGER = "kvedge-apiserver"


class ServerActor:
    """Creates, changes and deletes objects in the server's own name."""

    def __init__(self, hub: ObjectHub, writer: ObjectWriter, remover: ObjectRemover, work: LargeWork) -> None:
        self._hub = hub
        self._writer = writer
        self._remover = remover
        self._lane = work.lane(SERVER.user, own=True)

    async def ensure(self, obj: JsonObject) -> None:
        """Create an object of a built-in kind unless it is there."""
        kind = self._hub.kinds.of(obj["apiVersion"], obj["kind"])
        assert kind is not None
        metadata = obj["metadata"]
        context = self._context(kind, "create", metadata.get("namespace", ""), "")
        if self._hub.get(context.key_of(metadata["name"])) is None:
            # Somebody may be making it at the same time.
            with contextlib.suppress(AlreadyExists):
                await self._writer.create(context, obj)

    async def keep(self, obj: JsonObject, merged: Callable[[JsonObject, JsonObject], JsonObject]) -> None:
        """Create an object of a built-in kind, or bring the one that is there to what `merged(live, obj)` says."""
        await self.ensure(obj)
        kind = self._hub.kinds.of(obj["apiVersion"], obj["kind"])
        assert kind is not None
        metadata = obj["metadata"]
        stored = self._hub.get(self._context(kind, "get", metadata.get("namespace", ""), "").key_of(metadata["name"]))
        if stored is not None:
            await self.change(stored, lambda live: merged(live, obj))

    async def change(self, stored: Stored, produce: Produce, subresource: str = "") -> Stored | None:
        """Write what `produce` makes of the object; None when its kind is not served any more."""
        kind = self._hub.kind_of(stored)
        if kind is None:
            return None
        context = self._context(kind, "update", stored.key.namespace, stored.key.name, subresource)
        return await self._writer.change(context, produce)

    async def delete(self, stored: Stored, policy: str = "") -> None:
        """Delete this very object, or mark it; another one of its name is left alone."""
        kind = self._hub.kind_of(stored)
        if kind is None:
            return
        context = self._context(kind, "delete", stored.key.namespace, stored.key.name)
        await self._remover.delete(context, stored.key.name, DeleteOptions(uid=stored.meta.uid, policy=policy))

    async def remove_finalizer(self, stored: Stored, finalizer: str) -> None:
        """Take a finalizer off; the object goes when it was the last one."""

        def without(live: JsonObject) -> JsonObject:
            kept = [name for name in live["metadata"].get("finalizers") or [] if name != finalizer]
            live["metadata"]["finalizers"] = kept
            if not kept:
                del live["metadata"]["finalizers"]
            return live

        await self.change(stored, without)

    def _context(self, kind: ServedKind, verb: str, namespace: str, name: str, subresource: str = "") -> RequestContext:
        target = RequestTarget(verb, "", kind.group, kind.version, namespace, kind.plural, name, subresource)
        return RequestContext(target, kind, SERVER, WriteOptions(field_manager=_MANAGER), lane=self._lane)
