"""Which fields a field selector may name for each kind, and what an object has there.

Called by the server for list, watch and deletecollection. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN, find_built_in
from kvedge.standalone.apiserver.schema.selectors import FieldSelector
from kvedge.standalone.apiserver.wire.api_errors import BadRequest

_EVERY_KIND: Final = frozenset({"metadata.name", "metadata.namespace"})


# What an absent field stands for, where that is not the empty text.
_ABSENT: Final = {path: absent for kind in BUILT_IN for path, absent in kind.field_labels.items() if absent}


def check_field_selector(selector: FieldSelector, resource: str, declared: Iterable[str] = ()) -> None:
    """Refuse fields by which objects of a stored resource cannot be selected.

    `declared` are those that a CRD's version lists as selectable.

    Raises:
        BadRequest: naming the first such field.
    """
    row = find_built_in(resource)
    known = {*_EVERY_KIND, *(row.field_labels if row is not None else ()), *declared}
    for term in selector.terms:
        if term.field not in known:
            raise BadRequest(f"field label not supported: {term.field}")


def field_value(document: JsonObject, path: str) -> str:
    """The text that `path` (such as `status.phase`) has in an object, as field selectors compare it."""
    if path == "source" and document.get("kind") == "Event":
        source = document.get("source") or document.get("deprecatedSource") or {}
        return str(
            source.get("component") or document.get("reportingComponent") or document.get("reportingController") or ""
        )
    value: Any = document
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        return _ABSENT.get(path, "")
    return str(value).lower() if isinstance(value, bool) else str(value)
