"""Objects in the version and group in which a request speaks of them, and in the one in which they are kept.

The versions of a custom kind differ in nothing but their name (conversion strategy None), but an object may be older
than the kind's schema; Events are the one built-in kind that two groups serve. Pure.
"""

from __future__ import annotations

from typing import Final, cast

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.schema.structural_schema import apply_defaults, prune

_EVENTS: Final = "events.k8s.io"
# core/v1 has the first name for a field, events.k8s.io/v1 the second.
_EVENT_FIELDS: Final = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)


def is_settled(kind: ServedKind, revision: int) -> bool:
    """Whether an object that was written at this revision has been through the kind's present schema."""
    return kind.crd is None or revision > int(kind.crd["metadata"].get("resourceVersion") or 0)


def convert_to_served(kind: ServedKind, obj: JsonObject) -> JsonObject:
    """The stored object as this kind's clients see it; `obj` is altered and returned."""
    schema = kind.schema
    if schema is not None and not is_settled(kind, int(obj["metadata"].get("resourceVersion") or 0)):
        # As the real server reads it: without what the schema no longer knows, with what it defaults since.
        if not (kind.crd or {}).get("spec", {}).get("preserveUnknownFields"):
            obj = cast(JsonObject, prune(schema, obj)[0])
        obj = cast(JsonObject, apply_defaults(schema, obj))
    if obj.get("apiVersion") == kind.api_version:
        return obj
    if kind.group == _EVENTS:
        obj = _rename(obj, dict(_EVENT_FIELDS))
    return {**obj, "apiVersion": kind.api_version}


def convert_to_stored(kind: ServedKind, obj: JsonObject) -> JsonObject:
    """The object of a request as it is kept."""
    if kind.storage_api_version == kind.api_version:
        return obj
    if kind.group == _EVENTS:
        obj = _rename(obj, {new: core for core, new in _EVENT_FIELDS})
    return {**obj, "apiVersion": kind.storage_api_version}


def _rename(obj: JsonObject, names: dict[str, str]) -> JsonObject:
    return {names.get(key, key): value for key, value in obj.items()}
