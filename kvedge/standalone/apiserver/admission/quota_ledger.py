"""Keeps count of what namespaces with quotas use, and lets a write take of a quota or refuses it.

Lives in the API server's event loop, as the cache does. `ObjectWriter` takes right before it commits and gives back
once the commit is over. Between the two the taken amount counts, so that of two writes at the same time the second
sees what the first takes. The count follows the cache's changes, each by what it adds or takes away. It begins anew
only for a quota that was made or changed, and a namespace without quotas costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.quota_usage import choose_names, in_scopes, missing_words, usage_of
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.requests.write_rules import target_of
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored
from kvedge.standalone.apiserver.store.stored_bounds import QUOTAS, spec_of
from kvedge.standalone.apiserver.wire.amounts import NOTHING, Amount, Amounts, amounts_of, join_amounts, total
from kvedge.standalone.apiserver.wire.api_errors import Forbidden


class Tally(Struct):
    """One quota: its words, what objects take of it, and what writes that are under way will."""

    name: str
    spec: JsonObject
    hard: Amounts
    taken: dict[ObjectKey, Amounts] = field(default_factory=dict)
    used: dict[str, Amount] = field(default_factory=dict)
    # By object; of two writes of one object at the same time only one can succeed.
    pending: dict[ObjectKey, Amounts] = field(default_factory=dict)

    def usage(self, resource: str, obj: JsonObject) -> dict[str, Amount]:
        """What an object takes of this quota."""
        names = choose_names(resource, self.hard)
        if not names or not in_scopes(self.spec, resource, obj):
            return {}
        return {name: amount for name, amount in usage_of(resource, obj).items() if name in names and amount.value}

    def note(self, key: ObjectKey, amounts: Amounts) -> bool:
        """An object takes this from now on; whether that changes anything."""
        # The share of a write under way is in here, or the write is refused as its base is gone.
        self.pending.pop(key, None)
        return self.count(key, amounts)

    def count(self, key: ObjectKey, amounts: Amounts) -> bool:
        """An object takes this, whatever a write of it that is under way is about to take beyond it."""
        before = self.taken.pop(key, {})
        if amounts:
            self.taken[key] = amounts
        for name in before.keys() | amounts.keys():
            change = amounts.get(name, NOTHING) - before.get(name, NOTHING)
            self.used[name] = self.used.get(name, NOTHING) + change
        return before != amounts

    def with_pending(self) -> dict[str, Amount]:
        """What is used, and what writes under way will use."""
        return total((self.used, *self.pending.values()))

    def show_used(self) -> dict[str, str]:
        """The used amounts, as the status has them."""
        return {name: self.used.get(name, NOTHING).text for name in self.hard}


class QuotaLedger:
    """All quotas. `on_change(key)` is called for a quota whose used amounts have changed."""

    def __init__(self, cache: ObjectCache) -> None:
        self._cache = cache
        self._tallies: dict[str, dict[str, Tally]] = {}
        self._listeners: list[Callable[[ObjectKey], None]] = []
        for stored in cache.in_namespace(QUOTAS):
            self._count(stored)
        cache.on_change(self._notice)

    def on_change(self, listener: Callable[[ObjectKey], None]) -> None:
        """Call `listener` whenever a quota's used amounts, or what it is about, changed."""
        self._listeners.append(listener)

    def tally(self, key: ObjectKey) -> Tally | None:
        """The count of one quota."""
        return self._tallies.get(key.namespace, {}).get(key.name)

    @contextmanager
    def take(self, context: RequestContext, name: str, obj: JsonObject, live: JsonObject | None) -> Iterator[None]:
        """Take what a write needs beyond what its object has, for as long as the write is under way.

        Raises:
            Forbidden: a quota of the namespace has too little left, or wants more said.
        """
        tallies = self._tallies.get(context.namespace)
        if not tallies or not context.namespace or context.target.subresource not in ("", "resize"):
            yield
            return
        wanted = [
            (tally, more) for tally in tallies.values() if (more := self._count_more(context, name, tally, obj, live))
        ]
        for tally, more in wanted:
            _check_left(context, name, tally, more)
        key = context.key_of(name)
        for tally, more in wanted:
            tally.pending[key] = more
        try:
            yield
        finally:
            for tally, more in wanted:
                if tally.pending.get(key) is more:
                    del tally.pending[key]

    def _count_more(
        self, context: RequestContext, name: str, tally: Tally, obj: JsonObject, live: JsonObject | None
    ) -> dict[str, Amount]:
        resource = context.kind.storage
        if live is None and resource == "pods" and in_scopes(tally.spec, resource, obj):
            missing = missing_words(obj, tally.hard)
            if missing:
                why = f"failed quota: {tally.name}: must specify {missing}"
                raise Forbidden(target_of(context.kind, name), why)
        has = tally.usage(resource, live) if live is not None else {}
        changes = {key: amount - has.get(key, NOTHING) for key, amount in tally.usage(resource, obj).items()}
        return {key: change for key, change in changes.items() if change.value > 0}

    def _notice(self, change: Change) -> None:
        stored = change.current
        if stored.key.resource == QUOTAS:
            self._notice_quota(change)
        resource, namespace = stored.key.resource, stored.key.namespace
        known = self._tallies.get(namespace, {}).values() if namespace else ()
        tallies = [tally for tally in known if choose_names(resource, tally.hard)]
        if not tallies:
            return
        obj = None if change.type is ChangeType.DELETED else stored.load()
        for tally in tallies:
            amounts = tally.usage(resource, obj) if obj is not None else {}
            if tally.note(stored.key, amounts):
                self._tell(ObjectKey(QUOTAS, namespace, tally.name))

    def _notice_quota(self, change: Change) -> None:
        key = change.current.key
        known = self.tally(key)
        if change.type is ChangeType.DELETED:
            tallies = self._tallies.get(key.namespace, {})
            tallies.pop(key.name, None)
            if not tallies:
                self._tallies.pop(key.namespace, None)
            return
        if known is None or known.spec != spec_of(change.current):
            self._count(change.current)
        self._tell(key)

    def _count(self, quota: Stored) -> None:
        spec = spec_of(quota)
        known = self.tally(quota.key)
        tally = Tally(quota.key.name, spec, amounts_of(spec.get("hard")))
        if known is not None:
            # Writes that are under way give it back.
            tally.pending = known.pending
        for resource in self._cache.resources():
            if not choose_names(resource, tally.hard):
                continue
            for stored in self._cache.in_namespace(resource, quota.key.namespace):
                tally.count(stored.key, tally.usage(resource, stored.load()))
        self._tallies.setdefault(quota.key.namespace, {})[quota.key.name] = tally

    def _tell(self, key: ObjectKey) -> None:
        for listener in self._listeners:
            listener(key)


def _check_left(context: RequestContext, name: str, tally: Tally, more: Amounts) -> None:
    together = tally.with_pending()
    used = {key: together.get(key, NOTHING) for key in more}
    exceeded = [key for key in more if used[key].value + more[key].value > tally.hard[key].value]
    if exceeded:
        requested, taken, limited = (
            join_amounts({key: amounts[key] for key in exceeded}) for amounts in (more, used, tally.hard)
        )
        why = f"exceeded quota: {tally.name}, requested: {requested}, used: {taken}, limited: {limited}"
        raise Forbidden(target_of(context.kind, name), why)
