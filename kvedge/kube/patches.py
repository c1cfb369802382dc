"""The ways to change a part of an object.

Made by roles, sent by :mod:`kvedge.kube.kube_client`. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from kvedge.resources.codec import JsonObject


class MergePatch(Struct, frozen=True):
    """RFC 7386: given members replace, null removes, lists are replaced whole.

    With `metadata.resourceVersion` in the body the server refuses the patch (Conflict) when the object has moved on.
    """

    body: JsonObject


class JsonPatch(Struct, frozen=True):
    """RFC 6902 operations, in order; a failed `test` refuses them all (Invalid)."""

    ops: Sequence[JsonObject]


class ApplyPatch(Struct, frozen=True):
    """Server-side apply: the fields that `field_manager` wants; `force` takes them from other managers."""

    body: JsonObject
    field_manager: str
    force: bool = False


class StrategicPatch(Struct, frozen=True):
    """A merge patch that merges lists by their keys, such as conditions by type; core kinds only, no custom ones."""

    body: JsonObject


Patch: TypeAlias = MergePatch | JsonPatch | ApplyPatch | StrategicPatch


def content_type(patch: Patch) -> str:
    """The media type that tells the server which of them it is."""
    match patch:
        case MergePatch():
            return "application/merge-patch+json"
        case JsonPatch():
            return "application/json-patch+json"
        case ApplyPatch():
            return "application/apply-patch+yaml"
        case StrategicPatch():
            return "application/strategic-merge-patch+json"


def document(patch: Patch) -> JsonObject | list[JsonObject]:
    """The patch's body as a JSON document."""
    return list(patch.ops) if isinstance(patch, JsonPatch) else patch.body


def at_version(body: JsonObject, resource_version: str) -> MergePatch:
    """A merge patch that is refused unless the object still has `resource_version`."""
    metadata = {**body.get("metadata", {}), "resourceVersion": resource_version}
    return MergePatch({**body, "metadata": metadata})


def merge_difference(old: JsonObject, new: JsonObject) -> JsonObject:
    """The body of a merge patch that makes `new` of `old`; empty when they are the same."""
    body: JsonObject = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = merge_difference(before, value)
            if inner:
                body[key] = inner
        elif key not in old or before != value:
            body[key] = value
    return body
