"""The garbage collector: deletes what is owned by nothing any more, and lets waiting owners go.

Runs in the API server's event loop; sees every change, and at the start everything. Acts on the state, not on the
change.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.loops.garbage_plan import (
    DeleteDependent,
    DropReferences,
    Owner,
    plan_dependent,
    plan_owner,
)
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.requests.deletion_rules import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, OwnerReference, Stored
from kvedge.standalone.apiserver.writing.server_actor import ServerActor

_WAITING = frozenset({FOREGROUND_FINALIZER, ORPHAN_FINALIZER})


class GarbageLoop:
    """Keeps ownerReferences true."""

    def __init__(self, hub: ObjectHub, actor: ServerActor) -> None:
        self._hub = hub
        self._actor = actor
        self._loop: WorkLoop[ObjectKey] = WorkLoop("garbage collector", self._collect)

    def start(self) -> None:
        """Look at everything once, and from then on at what changes."""
        self._hub.cache.on_change(self._notice)
        self._hub.on_kinds_changed(self._look_at_owned)
        self._look_at_owned()
        for resource in self._hub.cache.resources():
            for stored in self._hub.cache.in_namespace(resource):
                if _waits(stored):
                    self._loop.add(stored.key)
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop()

    def _look_at_owned(self) -> None:
        for uid in self._hub.cache.owner_uids():
            for stored in self._hub.cache.find_owned_by(uid):
                self._loop.add(stored.key)

    def _notice(self, change: Change) -> None:
        stored = change.current
        if change.type is ChangeType.DELETED or _waits(stored):
            for dependent in self._hub.cache.find_owned_by(stored.meta.uid):
                self._loop.add(dependent.key)
        for known in (change.previous, stored):
            for reference in (known.meta.owner_references if known else None) or ():
                # An owner that waits may have waited for this one.
                key = self._key_of(stored, reference)
                if key is not None:
                    self._loop.add(key)
        if change.type is not ChangeType.DELETED and (stored.meta.owner_references or _waits(stored)):
            self._loop.add(stored.key)

    async def _collect(self, key: ObjectKey) -> None:
        stored = self._hub.get(key)
        if stored is None:
            return
        dependents = self._hub.cache.find_owned_by(stored.meta.uid)
        if _waits(stored):
            await self._settle_owner(stored, dependents)
        references = [
            (reference, self._state_of(stored, reference)) for reference in stored.meta.owner_references or ()
        ]
        match plan_dependent(references, bool(dependents)):
            case DeleteDependent(policy) if not stored.meta.deletion_timestamp:
                await self._actor.delete(stored, "" if set(stored.meta.finalizers or ()) & _WAITING else policy)
            case DropReferences(uids):
                await self._drop(stored, uids)

    async def _settle_owner(self, owner: Stored, dependents: list[Stored]) -> None:
        if ORPHAN_FINALIZER in (owner.meta.finalizers or ()):
            for dependent in dependents:
                await self._drop(dependent, frozenset({owner.meta.uid}))
            dependents = self._hub.cache.find_owned_by(owner.meta.uid)
        release = plan_owner(owner, dependents)
        if release is not None:
            await self._actor.remove_finalizer(owner, release.finalizer)

    async def _drop(self, dependent: Stored, uids: frozenset[str]) -> None:
        def without(live: JsonObject) -> JsonObject:
            kept = [entry for entry in live["metadata"].get("ownerReferences") or [] if entry.get("uid") not in uids]
            live["metadata"]["ownerReferences"] = kept
            if not kept:
                del live["metadata"]["ownerReferences"]
            return live

        await self._actor.change(dependent, without)

    def _state_of(self, dependent: Stored, reference: OwnerReference) -> Owner:
        key = self._key_of(dependent, reference)
        if key is None:
            return Owner.UNKNOWN
        owner = self._hub.get(key)
        if owner is None or owner.meta.uid != reference.uid:
            return Owner.GONE
        waits = owner.meta.deletion_timestamp and FOREGROUND_FINALIZER in (owner.meta.finalizers or ())
        return Owner.WAITING if waits else Owner.THERE

    def _key_of(self, dependent: Stored, reference: OwnerReference) -> ObjectKey | None:
        """Where the owner would be; None while its kind is not served."""
        kind = self._hub.kinds.owner(reference.api_version, reference.kind)
        if kind is None:
            return None
        return ObjectKey(kind.storage, dependent.key.namespace if kind.namespaced else "", reference.name)


def _waits(stored: Stored) -> bool:
    return bool(stored.meta.deletion_timestamp) and bool(_WAITING & set(stored.meta.finalizers or ()))
