"""Sets of fields (fieldsV1): which parts of an object a manager owns.

Called by typed_fields, managed_fields and server_apply. Pure. A path is a tuple of elements as fieldsV1 writes them:
`f:name` (a field), `k:{"name":"a"}` (the item of a list with these keys), `v:"a"` (a value in a set), `i:0` (an
index).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.json_values import compact

Path = tuple[str, ...]
FieldSet = frozenset[Path]

EMPTY: Final[FieldSet] = frozenset()
# What the server says about an object belongs to nobody.
_UNOWNED: Final[FieldSet] = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    }
)


def field(name: str) -> str:
    """The element of a named field."""
    return f"f:{name}"


def keyed(keys: JsonObject) -> str:
    """The element of the list item that has these keys."""
    return f"k:{compact(keys)}"


def valued(value: JsonValue) -> str:
    """The element of a value in a set."""
    return f"v:{compact(value)}"


def owned(fields: Iterable[Path]) -> FieldSet:
    """The fields without those that nobody owns."""
    return frozenset(fields) - _UNOWNED


def encode(fields: FieldSet) -> JsonObject:
    """The fieldsV1 document. A path that is a member and has members beneath it carries a dot."""
    document: JsonObject = {}
    for path in sorted(fields):
        node = document
        for element in path:
            # The way to here may have been a leaf so far: sorted, a path comes before what is beneath it.
            node = node.setdefault(element, {})
        node["."] = {}
    return _without_lone_dots(document)


def decode(document: JsonObject | None) -> FieldSet:
    """The set of a fieldsV1 document."""
    found: list[Path] = []
    _collect(document or {}, (), found)
    return frozenset(found)


def shown(path: Path) -> str:
    """A path as messages show it: `.spec.containers[name="a"].image`."""
    return "".join(map(_shown_element, path))


def _without_lone_dots(node: JsonObject) -> JsonObject:
    return {
        key: {} if key == "." or inner.keys() == {"."} else _without_lone_dots(inner) for key, inner in node.items()
    }


def _collect(node: JsonObject, path: Path, found: list[Path]) -> None:
    for key, inner in node.items():
        if key == ".":
            found.append(path)
        elif inner and isinstance(inner, dict):
            _collect(inner, (*path, key), found)
        else:
            found.append((*path, key))


def _shown_element(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        return "[" + ",".join(f"{key}={compact(value)}" for key, value in sorted(json.loads(rest).items())) + "]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"
