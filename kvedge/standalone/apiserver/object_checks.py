"""Whether an object may be stored: the rules of its metadata, of its schema, of its kind.

Called by the write path once the object has its final shape. Pure: all causes are returned, none is raised.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver import (
    admission_rules,
    aggregation_rules,
    metadata_rules,
    object_rules,
    structural_schema,
)
from kvedge.standalone.apiserver.api_errors import FieldError
from kvedge.standalone.apiserver.served_kinds import ServedKind


def check_create(kind: ServedKind, obj: JsonObject) -> list[FieldError]:
    """Everything wrong with a new object."""
    rule = object_rules.name_rule_of(kind)
    errors = metadata_rules.check_metadata(obj["metadata"], kind.namespaced, rule) + _check_schema(kind, obj)
    return errors + object_rules.check_content(kind, obj)


def check_update(kind: ServedKind, obj: JsonObject, live: JsonObject) -> list[FieldError]:
    """Everything wrong with an object that replaces `live`."""
    errors = metadata_rules.check_metadata_update(obj["metadata"], live["metadata"]) + _check_schema(kind, obj)
    return errors + object_rules.check_content_update(kind, obj, live)


def _check_schema(kind: ServedKind, obj: JsonObject) -> list[FieldError]:
    if kind.schema is not None:
        return structural_schema.validate(kind.schema, obj)
    if kind.storage in (admission_rules.MUTATING, admission_rules.VALIDATING):
        return admission_rules.check_webhooks(obj)
    if kind.storage == aggregation_rules.API_SERVICES:
        return aggregation_rules.check_api_service(obj)
    return []
