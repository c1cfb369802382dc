"""The delete path: one object or a collection, at once or by mark.

Called by the REST routes and by the server's own loops. Dependents are the garbage collector's, the content of a
namespace is the namespace loop's: both see the change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from kvedge.standalone.apiserver.admission.admission_protocol import Admission, Review
from kvedge.standalone.apiserver.kinds.custom import crd_status
from kvedge.standalone.apiserver.kinds.versions import convert_to_served, convert_to_stored
from kvedge.standalone.apiserver.requests import deletion_rules, write_rules
from kvedge.standalone.apiserver.requests.deletion_rules import DeleteOptions, Outcome
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.store.object_hub import CRDS, ObjectHub
from kvedge.standalone.apiserver.store.object_store import RevisionMismatch
from kvedge.standalone.apiserver.store.stored import Stored, Write
from kvedge.standalone.apiserver.wire.api_errors import Forbidden, NotFound, StaleWrite
from kvedge.standalone.apiserver.writing.object_writer import ObjectWriter

_ATTEMPTS: Final = 30
# Deletes that run together share commits.
_AT_ONCE: Final = 64
_KEPT_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


class ObjectRemover:
    """Deletes objects."""

    def __init__(self, hub: ObjectHub, admission: Admission, writer: ObjectWriter) -> None:
        self._hub = hub
        self._admission = admission
        self._now = writer.now

    async def delete(self, context: RequestContext, name: str, options: DeleteOptions) -> tuple[Stored, bool]:
        """Delete the object, or mark it for deletion.

        Returns what is left of it (its last state when it is gone) and whether it is gone.
        """
        for _ in range(_ATTEMPTS):
            try:
                return await self._delete(context, name, options)
            except RevisionMismatch:
                continue
        raise StaleWrite(write_rules.target_of(context.kind, name))

    async def delete_all(self, context: RequestContext, chosen: Iterable[Stored], options: DeleteOptions) -> None:
        """Delete these objects; those that are gone meanwhile are no error."""
        for several in split_into_portions(chosen, _AT_ONCE):
            await asyncio.gather(*(self._delete_if_there(context, stored.key.name, options) for stored in several))

    async def _delete_if_there(self, context: RequestContext, name: str, options: DeleteOptions) -> None:
        try:
            await self.delete(context, name, options)
        except NotFound:
            return

    async def _delete(self, context: RequestContext, name: str, options: DeleteOptions) -> tuple[Stored, bool]:
        kind, key = context.kind, context.key_of(name)
        stored = self._hub.get(key)
        if stored is None:
            raise NotFound(write_rules.target_of(kind, name))
        if kind.storage == "namespaces" and name in _KEPT_NAMESPACES:
            raise Forbidden(write_rules.target_of(kind, name), "this namespace may not be deleted")
        live = convert_to_served(kind, stored.load())
        deletion_rules.check_preconditions(kind, live, options)
        await self._admission.mutate(Review(context, "DELETE", None, live, name))
        await self._admission.validate(Review(context, "DELETE", None, live, name))
        obj = convert_to_served(kind, stored.load())
        outcome = deletion_rules.plan_delete(kind, obj, options, self._now())
        if outcome is Outcome.NOTHING or options.dry_run:
            return stored, outcome is Outcome.REMOVE
        if outcome is Outcome.MARK and kind.storage == CRDS:
            crd_status.set_terminating(obj, write_rules.timestamp(self._now()))
        write = Write(key, stored.revision, convert_to_stored(kind, obj), deletes=outcome is Outcome.REMOVE)
        change = await self._hub.commit(write)
        return change.current, outcome is Outcome.REMOVE


def split_into_portions(items: Iterable[Stored], size: int) -> Iterator[Sequence[Stored]]:
    """The items in portions of at most `size`."""
    iterator = iter(items)
    while portion := list(islice(iterator, size)):
        yield portion
