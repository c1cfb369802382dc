"""Whether an object may be stored: the rules of its metadata, of its schema, of its kind.

Called by the write path once the object has its final shape. Pure: causes are returned, none is raised; as many as are
told of.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.schema import metadata_rules, structural_schema
from kvedge.standalone.apiserver.wire.api_errors import FieldError, first_errors
from kvedge.standalone.apiserver.writing import object_rules


def check_create(kind: ServedKind, obj: JsonObject) -> list[FieldError]:
    """What is wrong with a new object: the first errors."""
    rule = object_rules.name_rule_of(kind)
    metadata = metadata_rules.check_metadata(obj["metadata"], kind.namespaced, rule)
    return first_errors(chain(metadata, _check_schema(kind, obj), object_rules.check_content(kind, obj)))


def check_update(kind: ServedKind, obj: JsonObject, live: JsonObject) -> list[FieldError]:
    """What is wrong with an object that replaces `live`: the first errors."""
    metadata = metadata_rules.check_metadata_update(obj["metadata"], live["metadata"])
    return first_errors(chain(metadata, _check_schema(kind, obj), object_rules.check_content_update(kind, obj, live)))


def _check_schema(kind: ServedKind, obj: JsonObject) -> Iterable[FieldError]:
    if kind.schema is not None:
        return structural_schema.validate(kind.schema, obj)
    return ()
