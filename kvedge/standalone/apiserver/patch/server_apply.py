"""Server-side apply, and who owns which fields after any other write.

Called by the server for every write. Pure; the time is given and the inputs are not touched. It follows structured-
merge-diff, without its conversions between versions: the versions of our kinds have the same fields.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.kinds.types.builtin_schemas import metadata_schema, schema_of
from kvedge.standalone.apiserver.schema import field_sets, managed_fields, typed_fields
from kvedge.standalone.apiserver.schema.field_sets import FieldSet, Path
from kvedge.standalone.apiserver.schema.managed_fields import Entry, Manager
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, ManagerConflict
from kvedge.standalone.apiserver.wire.json_values import clone, compact, same
from kvedge.standalone.apiserver.wire.told import LONGEST_PATH, MOST_TOLD, cut

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
# Only kubectl may take over silently what it applied from the client side before.
_KUBECTL: Final = "kubectl"


class Writer(Struct, frozen=True):
    """A writer: its name, its API version and its subresource; `has_status` says that status is a subresource."""

    manager: str
    api_version: str
    subresource: str = ""
    has_status: bool = False

    def counts(self, path: Path) -> bool:
        """Whether a write through this endpoint can set the field at all; what it cannot set, it does not own."""
        if self.subresource == "status":
            return path[:1] == ("f:status",)
        return not (self.has_status and path[:1] == ("f:status",))


def merge_schema(kind: ServedKind) -> JsonObject:
    """The schema by which objects of a kind are merged, metadata included; an empty one when nothing is known."""
    schema = kind.schema if kind.crd is not None else schema_of(kind.group, kind.kind)
    if kind.crd is None or schema is None:
        return schema or {"properties": {"metadata": metadata_schema()}}
    return {**schema, "properties": {**(schema.get("properties") or {}), "metadata": metadata_schema()}}


def apply(
    live: JsonObject | None, applied: JsonObject, writer: Writer, schema: JsonObject, now: datetime, force: bool = False
) -> JsonObject:
    """The object after `applied` was applied: merged, without what this manager no longer applies, owners noted.

    Args:
        live: the stored object, or None to create one.
        applied: the wanted fields; it must not carry managedFields.
        writer: who applies.
        schema: from `merge_schema`.
        now: the time of the manager's entry, if that or the object changes.
        force: take over fields that others own.

    Raises:
        ManagerConflict: naming each field that somebody else owns and has another value for.
        BadRequest: the applied object cannot be applied.
    """
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    base, entries = _base(live, applied)
    applier = Manager(writer.manager, "Apply", writer.api_version, writer.subresource)
    wanted = frozenset(filter(writer.counts, typed_fields.fields_of(applied, schema)))
    others = [entry for entry in entries if entry.manager.identity != applier.identity]
    before = next((entry for entry in entries if entry.manager.identity == applier.identity), None)
    counted = typed_fields.remove(applied, schema, _find_uncounted_fields(applied, writer))
    merged = typed_fields.merge(base, counted, schema)
    if before is not None:
        merged = _prune(merged, schema, before.fields, [wanted, *(entry.fields for entry in others)])
    change = typed_fields.difference(base, merged, schema).only(writer.counts)
    conflicts = _conflicts(others, change.modified | change.added)
    if conflicts and not force and not _may_take_over(base, conflicts, writer, schema):
        raise _conflict_error(conflicts)
    lost = {entry.manager.identity: fields | change.removed for entry, fields in conflicts}
    removed = frozenset(change.removed)
    others = managed_fields.without(others, {entry.manager.identity: removed for entry in others} | lost)
    unchanged = (
        live is not None
        and before is not None
        and same(base, merged)
        and before.fields == field_sets.drop_unowned(wanted)
    )
    time = before.time if unchanged and before is not None else managed_fields.format_time(now)
    result = _with_entries(merged, [*others, Entry(applier, field_sets.drop_unowned(wanted), time)])
    _note_last_applied(result, applied, writer)
    return result


def track_update(
    live: JsonObject | None, new: JsonObject, writer: Writer, schema: JsonObject, now: datetime
) -> JsonObject:
    """The object of a plain write (create, update, patch) with its managedFields: the writer owns what it changed.

    Args:
        live: the stored object, or None when it is created.
        new: the object as it will be stored.
        writer: who writes.
        schema: from `merge_schema`.
        now: the time of the writer's entry, if it changes.
    """
    entries = managed_fields.starting_entries(live, new, writer.subresource)
    before, after = _plain(live or {}), _plain(new)
    change = typed_fields.difference(before, after, schema).only(writer.counts)
    gained, removed = frozenset(change.added | change.modified), frozenset(change.removed)
    updater = Manager(writer.manager, "Update", writer.api_version, writer.subresource)
    lost = gained | removed
    kept = managed_fields.without(entries, {entry.manager.identity: lost for entry in entries})
    gained = field_sets.drop_unowned(gained)
    if gained:
        mine = [entry for entry in kept if entry.manager.identity == updater.identity]
        kept = [entry for entry in kept if entry.manager.identity != updater.identity]
        fields = gained.union(*(entry.fields for entry in mine))
        kept.append(Entry(updater, fields, managed_fields.format_time(now)))
    return _with_entries(after, kept)


def _base(live: JsonObject | None, applied: JsonObject) -> tuple[JsonObject, list[Entry]]:
    if live is not None:
        return _plain(live), managed_fields.decode(live.get("metadata", {}).get("managedFields"))
    metadata = applied.get("metadata") or {}
    kept = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    return {"apiVersion": applied.get("apiVersion"), "kind": applied.get("kind"), "metadata": kept}, []


def _plain(obj: JsonObject) -> JsonObject:
    """A copy without managedFields."""
    copy: JsonObject = clone(obj)
    if isinstance(copy.get("metadata"), dict):
        copy["metadata"].pop("managedFields", None)
    return copy


def _find_uncounted_fields(applied: JsonObject, writer: Writer) -> FieldSet:
    """The top-level fields that this endpoint cannot set."""
    paths = ((field_sets.field(name),) for name in applied if name not in {"apiVersion", "kind", "metadata"})
    return frozenset(path for path in paths if not writer.counts(path))


def _prune(merged: JsonObject, schema: JsonObject, before: FieldSet, owners: list[FieldSet]) -> JsonObject:
    """Without what the manager applied before and nobody, itself included, wants any more."""
    owned = typed_fields.with_named_ancestors(field_sets.EMPTY.union(*owners), schema)
    dropped = typed_fields.with_named_ancestors(before, schema) - owned - {("f:metadata",)}
    kept: JsonObject = typed_fields.remove(merged, schema, dropped, kept=owned)
    return kept


def _conflicts(others: list[Entry], changed: set[Path]) -> list[tuple[Entry, FieldSet]]:
    found = [(entry, frozenset(entry.fields & changed)) for entry in others]
    return [(entry, fields) for entry, fields in found if fields]


def _may_take_over(
    live: JsonObject, conflicts: list[tuple[Entry, FieldSet]], writer: Writer, schema: JsonObject
) -> bool:
    """Whether all conflicts are about fields that kubectl itself applied from the client side."""
    annotation = (live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    if writer.manager != _KUBECTL or not annotation:
        return False
    try:
        last = json.loads(annotation)
    except ValueError:
        return False
    if not isinstance(last, dict) or last.get("apiVersion") != writer.api_version:
        return False
    change = typed_fields.difference(last, live, schema)
    mine = typed_fields.fields_of(last, schema) - change.modified - change.added - change.removed
    return all(fields <= mine for _, fields in conflicts)


def _note_last_applied(obj: JsonObject, applied: JsonObject, writer: Writer) -> None:
    """Keep the annotation of client-side apply current, so that an older kubectl can go on with it."""
    annotations = obj.get("metadata", {}).get("annotations") or {}
    if writer.manager == _KUBECTL and not writer.subresource and LAST_APPLIED in annotations:
        annotations[LAST_APPLIED] = compact(applied) + "\n"


def _with_entries(obj: JsonObject, entries: Iterable[Entry]) -> JsonObject:
    encoded = managed_fields.encode(
        Entry(entry.manager, field_sets.drop_unowned(entry.fields), entry.time) for entry in entries
    )
    if encoded:
        obj.setdefault("metadata", {})["managedFields"] = encoded
    return obj


def _conflict_error(conflicts: list[tuple[Entry, FieldSet]]) -> ManagerConflict:
    count = sum(len(fields) for _, fields in conflicts)
    listed = [
        (entry.manager.describe(), field_sets.show_path(path))
        for entry, fields in conflicts[:MOST_TOLD]
        for path in heapq.nsmallest(MOST_TOLD + 1, fields)
    ][: MOST_TOLD + 1]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {name}", "field": cut(path, LONGEST_PATH)}
        for name, path in listed
    ]
    if count == 1:
        name, path = listed[0]
        return ManagerConflict(f"Apply failed with 1 conflict: conflict with {name}: {path}", causes)
    by_name: dict[str, list[str]] = {}
    for name, path in listed:
        by_name.setdefault(name, []).append(cut(path, LONGEST_PATH))
    lines = []
    for name in sorted(by_name):
        lines.append(f"conflicts with {name}:")
        lines += [f"- {path}" for path in by_name[name]]
    if count > len(listed):
        lines.append(f"and {count - len(listed)} more")
    return ManagerConflict(f"Apply failed with {count} conflicts: " + "\n".join(lines), causes)
