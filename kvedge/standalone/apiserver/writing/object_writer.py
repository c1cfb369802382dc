"""The write path: create and change one object, from the client's document to the disk.

Called by the REST routes and by the server's own loops. Reads the cache, asks admission, commits through the hub. A
change whose base was overtaken is made again from the new state, unless the client said which version it had read. What
takes long for a large object is done in the lane of the request's user; what is decided by the cache is decided in the
event loop, and last by the store, which takes a write only when its base is still there.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final, cast

import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.admission_protocol import Admission, Review
from kvedge.standalone.apiserver.admission.quota_ledger import QuotaLedger
from kvedge.standalone.apiserver.admission.service_ledger import ServiceLedger
from kvedge.standalone.apiserver.kinds.built_in import initial_status
from kvedge.standalone.apiserver.kinds.custom.crd_status import CLEANUP_FINALIZER, set_crd_status
from kvedge.standalone.apiserver.kinds.rules.pod_resize_rules import check_resize
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.kinds.versions import convert_to_served, convert_to_stored
from kvedge.standalone.apiserver.patch import server_apply
from kvedge.standalone.apiserver.requests import deletion_rules, write_rules
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.schema import structural_schema
from kvedge.standalone.apiserver.store.object_hub import CRDS, ObjectHub
from kvedge.standalone.apiserver.store.object_store import RevisionMismatch
from kvedge.standalone.apiserver.store.stored import ObjectKey, Stored, Write
from kvedge.standalone.apiserver.wire.api_errors import (
    AlreadyExists,
    ApiError,
    FieldError,
    Forbidden,
    NotFound,
    StaleWrite,
    Target,
    first_errors,
)
from kvedge.standalone.apiserver.wire.json_values import clone
from kvedge.standalone.apiserver.wire.large_work import SMALL_BYTES
from kvedge.standalone.apiserver.writing import object_checks
from kvedge.standalone.apiserver.writing.object_shape import report_unknown, shape

# So often a change is made anew when others write the same object meanwhile.
_ATTEMPTS: Final = 30
# And so often when each attempt takes long: concurrent writers must not multiply the work.
_LARGE_ATTEMPTS: Final = 5
_GENERATED_NAMES: Final = 8
# No vowels, no look-alikes: what Kubernetes makes names of.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"

# Makes the wanted object of the present one (a copy, its to alter).
Produce = Callable[[JsonObject], JsonObject]


def utc_now() -> datetime:
    """The clock of the write path."""
    return datetime.now(UTC)


class ObjectWriter:
    """Creates and changes objects.

    What it raises is an ApiError as the API server words it; nothing was stored then.
    """

    def __init__(
        self,
        hub: ObjectHub,
        admission: Admission,
        quotas: QuotaLedger,
        services: ServiceLedger,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._hub = hub
        self._admission = admission
        self._quotas = quotas
        self._services = services
        self.now = now

    async def create(self, context: RequestContext, obj: JsonObject, *, owners_noted: bool = False) -> Stored:
        """Create an object in the namespace of the URL.

        `owners_noted` says that its managedFields are right already, as after a server-side apply.
        """
        write_rules.check_metadata(context.kind, obj)
        if not obj["metadata"].get("name"):
            for _ in range(_GENERATED_NAMES - 1):
                with contextlib.suppress(AlreadyExists):
                    copy = await context.work(partial(clone, obj))
                    return await self._create(context, cast(JsonObject, copy), owners_noted)
        return await self._create(context, obj, owners_noted)

    async def change(self, context: RequestContext, produce: Produce, *, owners_noted: bool = False) -> Stored:
        """Write what `produce` makes of the object, or of its status when the URL says so."""
        for attempt in range(_ATTEMPTS):
            stored = self._hub.get(context.key)
            if stored is None:
                raise NotFound(context.error_target)
            size = len(stored.body)
            if attempt >= _LARGE_ATTEMPTS and context.size + size > SMALL_BYTES:
                break
            live, obj = await context.work(partial(_produce, context.kind, stored, produce), size)
            given = obj["metadata"].setdefault("resourceVersion", live["metadata"]["resourceVersion"])
            # A produce that does not touch it hands back the version it was given; any other is the client's word.
            if given != live["metadata"]["resourceVersion"]:
                raise StaleWrite(context.error_target)
            try:
                return await self._change(context, stored, live, obj, owners_noted)
            except RevisionMismatch:
                continue
        raise StaleWrite(context.error_target)

    async def _create(self, context: RequestContext, obj: JsonObject, owners_noted: bool) -> Stored:
        kind = context.kind
        write_rules.check_identity(kind, obj, context.namespace, context.target.name)
        _check_stays(kind)
        self._check_namespace(context, obj)
        obj = await context.work(partial(_shape, context, obj))
        obj = await self._mutate(context, "CREATE", obj, None)
        obj, errors = await context.work(partial(self._prepare, context, obj, owners_noted))
        name = obj["metadata"]["name"]
        if errors:
            raise write_rules.invalid(kind, name, errors)
        await self._admission.validate(Review(context, "CREATE", obj, None, name))
        write_rules.check_unversioned(obj)
        if self._hub.get(context.key_of(name)) is not None:
            raise AlreadyExists(write_rules.target_of(kind, name))
        try:
            # Last, as what is taken of a quota may be lacking to others until the write is over.
            with self._quotas.take(context, name, obj, None), self._services.take(context, name, obj):
                if context.options.dry_run:
                    return _make_unsaved_object(context.key_of(name), convert_to_stored(kind, obj), 0)
                # Again: while admission was asked, the namespace may have gone.
                self._check_namespace(context, obj)
                return (await self._hub.commit(Write(context.key_of(name), 0, convert_to_stored(kind, obj)))).current
        except RevisionMismatch as error:
            raise AlreadyExists(write_rules.target_of(kind, name)) from error

    async def _change(
        self, context: RequestContext, stored: Stored, live: JsonObject, obj: JsonObject, owners_noted: bool
    ) -> Stored:
        kind, name = context.kind, context.target.name
        write_rules.check_identity(kind, obj, context.namespace, name)
        obj = await context.work(partial(_shape, context, obj), len(stored.body))
        obj = await self._mutate(context, "UPDATE", obj, live)
        prepare = partial(self._prepare_update, context, live, obj, owners_noted)
        obj, errors = await context.work(prepare, len(stored.body))
        if errors:
            raise write_rules.invalid(kind, name, errors)
        await self._admission.validate(Review(context, "UPDATE", obj, live, name))
        if write_rules.same_object(live, obj):
            return stored
        with self._quotas.take(context, name, obj, live), self._services.take(context, name, obj):
            if context.options.dry_run:
                return _make_unsaved_object(stored.key, convert_to_stored(kind, obj), stored.revision)
            finished = deletion_rules.is_finished(kind, obj)
            write = Write(stored.key, stored.revision, convert_to_stored(kind, obj), deletes=finished)
            return (await self._hub.commit(write)).current

    def _prepare(
        self, context: RequestContext, obj: JsonObject, owners_noted: bool
    ) -> tuple[JsonObject, list[FieldError]]:
        """Prepare a new object as it will be stored, and list its faults."""
        kind = context.kind
        stamp = write_rules.Stamp(self.now(), str(uuid.uuid4()), "".join(random.choices(_LETTERS, k=5)))
        write_rules.prepare_create(kind, obj, stamp)
        if kind.schema is not None:
            # The client's status is gone; what a status begins with is the schema's to say.
            obj = cast(JsonObject, structural_schema.apply_defaults(kind.schema, obj))
        self._set_server_fields(context, obj, None)
        if not owners_noted:
            obj = self._with_owners(context, obj, None)
        return obj, object_checks.check_create(kind, obj)

    def _prepare_update(
        self, context: RequestContext, live: JsonObject, obj: JsonObject, owners_noted: bool
    ) -> tuple[JsonObject, list[FieldError]]:
        """Prepare a changed object as it will be stored, and list its faults."""
        kind = context.kind
        if context.target.subresource in ("status", "approval"):
            write_rules.prepare_status_update(kind, live, obj)
        elif context.target.subresource == "resize":
            write_rules.prepare_resize(kind, live, obj)
        elif context.target.subresource == "finalize":
            write_rules.prepare_finalize(live, obj)
        elif context.target.subresource != "binding":
            write_rules.prepare_update(kind, live, obj)
            self._set_server_fields(context, obj, live)
        if not owners_noted:
            obj = self._with_owners(context, obj, live)
        if context.target.subresource == "resize":
            # All else is as it was.
            return obj, first_errors(check_resize(obj, live))
        return obj, object_checks.check_update(kind, obj, live)

    async def _mutate(
        self, context: RequestContext, operation: str, obj: JsonObject, live: JsonObject | None
    ) -> JsonObject:
        name = context.target.name or obj["metadata"].get("name") or ""
        mutated = cast(JsonObject, await self._admission.mutate(Review(context, operation, obj, live, name)))
        if mutated is obj:
            return obj
        # A webhook may name fields that the kind does not know; nobody is to be blamed for them.
        return (await context.work(partial(shape, context.kind, mutated))).obj

    def _set_server_fields(self, context: RequestContext, obj: JsonObject, live: JsonObject | None) -> None:
        kind = context.kind
        if live is None and kind.crd is None and kind.has_status and "status" not in obj:
            status = initial_status(kind.storage, obj)
            if status is not None:
                obj["status"] = status
        if kind.storage == CRDS:
            finalizers = obj["metadata"].get("finalizers") or []
            if CLEANUP_FINALIZER not in finalizers and (live is None or not live["metadata"].get("deletionTimestamp")):
                obj["metadata"]["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
            set_crd_status(obj, self._hub.kinds.kinds, write_rules.timestamp(self.now()))

    def _with_owners(self, context: RequestContext, obj: JsonObject, live: JsonObject | None) -> JsonObject:
        """Note in managedFields what this write changed."""
        schema = server_apply.merge_schema(context.kind)
        return server_apply.track_update(live, obj, field_writer(context), schema, self.now())

    def _check_namespace(self, context: RequestContext, obj: JsonObject) -> None:
        if not context.kind.namespaced:
            return
        stored = self._hub.get(ObjectKey("namespaces", "", context.namespace))
        if stored is None:
            raise NotFound(Target("namespaces", context.namespace))
        if stored.meta.deletion_timestamp:
            why = f"unable to create new content in namespace {context.namespace} because it is being terminated"
            refusal = Forbidden(write_rules.target_of(context.kind, obj["metadata"].get("name") or ""), why)
            refusal.causes = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {context.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise refusal


def _produce(kind: ServedKind, stored: Stored, produce: Produce) -> tuple[JsonObject, JsonObject]:
    """The object as it is, and as it is wanted."""
    live = convert_to_served(kind, stored.load())
    # Decoded once more, which takes a tenth of the time of a copy.
    obj = produce(convert_to_served(kind, stored.load()))
    write_rules.check_metadata(kind, obj)
    return live, obj


def _shape(context: RequestContext, obj: JsonObject) -> JsonObject:
    result = shape(context.kind, obj)
    for text in report_unknown(context.kind, result.unknown, context.options.field_validation):
        context.warn(text)
    return result.obj


def _check_stays(kind: ServedKind) -> None:
    """Nothing is created of a kind that is going.

    Raises:
        ApiError: 405, as the API server has it.
    """
    if kind.crd is not None and kind.crd["metadata"].get("deletionTimestamp"):
        text = "create not allowed while custom resource definition is terminating"
        raise ApiError(405, "MethodNotAllowed", text)


def field_writer(context: RequestContext) -> server_apply.Writer:
    """The manager that managedFields name for this request."""
    kind, target = context.kind, context.target
    return server_apply.Writer(context.options.field_manager, kind.api_version, target.subresource, kind.has_status)


def _make_unsaved_object(key: ObjectKey, obj: JsonObject, revision: int) -> Stored:
    """The object that a dry run would have stored."""
    return Stored(key, revision, msgspec.json.encode(obj))
