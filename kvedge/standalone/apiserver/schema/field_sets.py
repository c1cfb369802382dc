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
from kvedge.standalone.apiserver.wire.json_values import compact

Path = tuple[str, ...]
FieldSet = frozenset[Path]

EMPTY: Final[FieldSet] = frozenset()
# No manager owns the fields that the server sets about an object.
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


def key_element(keys: JsonObject) -> str:
    """The element of the list item that has these keys."""
    return f"k:{compact(keys)}"


def value_element(value: JsonValue) -> str:
    """The element of a value in a set."""
    return f"v:{compact(value)}"


def drop_unowned(fields: Iterable[Path]) -> FieldSet:
    """The fields without those that nobody owns."""
    return frozenset(fields) - _UNOWNED


def encode(fields: FieldSet) -> JsonObject:
    """The fieldsV1 document. A path that is a member and has members beneath it carries a dot."""
    document: JsonObject = {}
    for path in fields:
        node = document
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _in_order(document)


def decode(document: JsonObject | None) -> FieldSet:
    """The set of a fieldsV1 document."""
    found: list[Path] = []
    _collect(document or {}, (), found)
    return frozenset(found)


def show_path(path: Path) -> str:
    """A path as messages show it: `.spec.containers[name="a"].image`."""
    return "".join(map(_show_element, path))


def _in_order(node: JsonObject) -> JsonObject:
    """The members sorted at each level, a member without any beneath it empty.

    Paths are not sorted as a whole: deep ones have long beginnings in common, and comparing them holds up all threads.
    """
    return {key: {} if key == "." or node[key].keys() == {"."} else _in_order(node[key]) for key in sorted(node)}


def _collect(node: JsonObject, path: Path, found: list[Path]) -> None:
    for key, inner in node.items():
        if key == ".":
            found.append(path)
        elif inner and isinstance(inner, dict):
            _collect(inner, (*path, key), found)
        else:
            found.append((*path, key))


def _show_element(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        return "[" + ",".join(f"{key}={compact(value)}" for key, value in sorted(json.loads(rest).items())) + "]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"
