"""The four ways to patch an object, by the Content-Type of the request.

Used by the REST routes. Pure: each makes the wanted object of the present one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.kinds.types.builtin_schemas import schema_of
from kvedge.standalone.apiserver.patch import json_patch, merge_patch, server_apply, strategic_patch
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.requests.write_rules import check_identity
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, FieldError, FieldErrorType, Invalid, Target
from kvedge.standalone.apiserver.wire.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from kvedge.standalone.apiserver.writing.object_writer import field_writer

Patcher = Callable[[JsonObject], JsonObject]


def list_accepted_patches(kind: ServedKind) -> tuple[str, ...]:
    """The media types of patches that a kind takes: a strategic merge needs the merge keys of a built-in kind."""
    if kind.crd is not None:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def patcher(kind: ServedKind, media_type: str, patch: Any) -> Patcher:
    """What applies this JSON, merge or strategic merge patch to an object.

    Raises:
        BadRequest: the patch is no patch.
    """
    if media_type == JSON_PATCH:
        return lambda live: json_patch.apply(live, patch)
    if not isinstance(patch, dict):
        raise BadRequest("the patch must be an object")
    if media_type == MERGE_PATCH:
        return lambda live: merge_patch.apply(live, patch)
    schema = schema_of(kind.group, kind.kind) or {}
    return lambda live: strategic_patch.apply(live, patch, schema)


def check_apply(context: RequestContext, query: Mapping[str, str], wanted: Any) -> None:
    """Make sure that something can be applied.

    Raises:
        BadRequest, Invalid: it cannot.
    """
    if not query.get("fieldManager"):
        error = FieldError(FieldErrorType.REQUIRED, "fieldManager", "is required for apply patch")
        raise Invalid(Target("PatchOptions", group="meta.k8s.io"), [error])
    if not isinstance(wanted, dict):
        raise BadRequest("the applied configuration must be an object")
    if not wanted.get("apiVersion") or not wanted.get("kind"):
        raise BadRequest("the applied configuration must have apiVersion and kind")
    check_identity(context.kind, wanted, context.namespace, context.target.name)


def applier(context: RequestContext, wanted: JsonObject, now: datetime) -> Patcher:
    """What applies this configuration to an object that is there."""
    return lambda live: apply(context, live, wanted, now)


def apply(context: RequestContext, live: JsonObject | None, wanted: JsonObject, now: datetime) -> JsonObject:
    """The object after a server-side apply.

    Raises:
        ManagerConflict: somebody else owns a field that is to change.
    """
    schema = server_apply.merge_schema(context.kind)
    return server_apply.apply(live, wanted, field_writer(context), schema, now, force=context.options.force)
