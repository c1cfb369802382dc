"""Walking objects the way their schema structures them, for server-side apply: fields, differences, merging, removing.

Called by server_apply. Pure; the inputs are not touched. A map is granular unless its schema says atomic; a list is
atomic unless its schema makes it a map by keys or a set. What no schema describes is granular as a map and atomic as
a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.schema import field_sets
from kvedge.standalone.apiserver.schema.field_sets import FieldSet, Path
from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.json_values import clone, same

_ABSENT: Final = object()


@dataclass
class Difference:
    """What changed between two objects; parents of what was added or removed as a whole are named too."""

    added: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)

    def only(self, counts: Callable[[Path], bool]) -> Difference:
        """The part of it that counts."""
        return Difference(
            *({path for path in paths if counts(path)} for paths in (self.added, self.removed, self.modified))
        )


class _Child(Struct, frozen=True):
    element: str
    value: Any
    schema: JsonObject
    # A field that the schema declares, rather than a key or an item that somebody chose.
    named: bool


def fields_of(value: JsonValue, schema: JsonObject, path: Path = ()) -> FieldSet:
    """The fields that somebody who applies this value owns.

    Raises:
        BadRequest: when a list has items that its keys do not tell apart.
    """
    return frozenset(_fields(value, schema, path))


def difference(before: JsonValue, after: JsonValue, schema: JsonObject) -> Difference:
    """What an update changed. Lists that cannot be told apart by their keys are compared as a whole."""
    found = Difference()
    _compare(before, after, schema, (), found)
    return found


def merge(live: JsonValue, applied: JsonValue, schema: JsonObject) -> JsonValue:
    """The live value with the applied one over it."""
    live_children, applied_children = _children_by_element(live, schema), _children_by_element(applied, schema)
    if live_children is None or applied_children is None or type(live) is not type(applied):
        return clone(applied)
    if not live_children and not applied_children:
        return clone(applied)
    merged = {}
    for element in [*live_children, *(element for element in applied_children if element not in live_children)]:
        before, after = live_children.get(element), applied_children.get(element)
        if before is None or after is None:
            merged[element] = clone((after or before).value)  # type: ignore[union-attr]
        else:
            merged[element] = merge(before.value, after.value, after.schema)
    if isinstance(applied, dict):
        return {element.removeprefix("f:"): item for element, item in merged.items()}
    return [merged[element] for element in _merge_order(list(live_children), list(applied_children))]


def remove(value: JsonValue, schema: JsonObject, paths: FieldSet, kept: FieldSet = field_sets.EMPTY) -> JsonValue:
    """The value without what stands at these paths; what this empties goes too, unless it is among the `kept`."""
    left = _remove_fields(value, schema, (), _Removal(paths, kept, _prefixes(paths)))
    return {} if left is _ABSENT else left


def with_named_ancestors(paths: FieldSet, schema: JsonObject) -> FieldSet:
    """The paths, and the fields above them that the schema declares: an owner of `spec.x` keeps `spec` alive."""
    found = set(paths)
    for path in paths:
        inner: JsonObject | None = schema
        for depth, element in enumerate(path[:-1]):
            if element.startswith("f:"):
                name = element.removeprefix("f:")
                if name in ((inner or {}).get("properties") or {}):
                    found.add(path[: depth + 1])
                inner = _member_schema(inner or {}, name)
            else:
                inner = (inner or {}).get("items")
    return frozenset(found)


def _fields(value: JsonValue, schema: JsonObject, path: Path) -> Iterator[Path]:
    children = _children(value, schema, strict=True, path=path)
    if children is None:
        yield path
        return
    seen = set()
    for child in children:
        where = (*path, child.element)
        if child.element in seen:
            raise BadRequest(
                f"{field_sets.show_path(path)}: duplicate entries for key {field_sets.show_path((child.element,))}"
            )
        seen.add(child.element)
        yield from _fields(child.value, child.schema, where)
        if not child.named or child.value is None or child.value == {}:
            yield where


def _compare(before: Any, after: Any, schema: JsonObject, path: Path, found: Difference) -> None:
    if before is not _ABSENT and after is not _ABSENT and same(before, after):
        return
    old, new = _children_by_element(before, schema), _children_by_element(after, schema)
    mixed = before is not _ABSENT and after is not _ABSENT and type(before) is not type(after)
    if old is None or new is None or mixed or not (old or new):
        target = found.added if before is _ABSENT else found.removed if after is _ABSENT else found.modified
        target.add(path)
        return
    for element in {**old, **new}:
        one = new.get(element) or old[element]
        left = old[element].value if element in old else _ABSENT
        right = new[element].value if element in new else _ABSENT
        _compare(left, right, one.schema, (*path, element), found)
    if before is _ABSENT:
        found.added.add(path)
    elif after is _ABSENT:
        found.removed.add(path)


def _children_by_element(value: Any, schema: JsonObject) -> dict[str, _Child] | None:
    """The children of a granular value; of an absent one none, as whatever the other side has is new; None for
    leaves.
    """
    if value is _ABSENT:
        return {}
    children = _children(value, schema, strict=False)
    if children is None:
        return None
    by_element = {child.element: child for child in children}
    # Items with the same keys are told apart by nothing: the list is one value then.
    return by_element if len(by_element) == len(children) else None


def _children(value: Any, schema: JsonObject, strict: bool, path: Path = ()) -> list[_Child] | None:
    if isinstance(value, dict):
        if schema.get("x-kubernetes-map-type") == "atomic":
            return None
        properties = schema.get("properties") or {}
        return [
            _Child(field_sets.field(name), item, _member_schema(schema, name), name in properties)
            for name, item in value.items()
        ]
    if not isinstance(value, list) or schema.get("x-kubernetes-list-type", "atomic") == "atomic":
        return None
    children = []
    for index, item in enumerate(value):
        element = _item_element(item, schema)
        if element is None:
            if strict:
                raise BadRequest(f"{field_sets.show_path(path)}: element {index}: {_key_fault(schema)}")
            return None
        children.append(_Child(element, item, schema.get("items") or {}, named=False))
    return children


def _item_element(item: Any, schema: JsonObject) -> str | None:
    if schema["x-kubernetes-list-type"] == "set":
        return None if item is None or isinstance(item, dict | list) else field_sets.value_element(item)
    if not isinstance(item, dict):
        return None
    properties = (schema.get("items") or {}).get("properties") or {}
    keys = {}
    for name in schema.get("x-kubernetes-list-map-keys") or []:
        value = item.get(name, (properties.get(name) or {}).get("default"))
        if value is not None:
            keys[name] = value
    return field_sets.key_element(keys) if keys else None


def _key_fault(schema: JsonObject) -> str:
    if schema["x-kubernetes-list-type"] == "set":
        return "associative list without keys has an element that is not a scalar"
    names = " ".join(f'"{name}"' for name in schema.get("x-kubernetes-list-map-keys") or [])
    return f"associative list with keys has an element that omits all key fields [{names}]"


def _member_schema(schema: JsonObject, name: str) -> JsonObject:
    found = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def _merge_order(live: list[str], applied: list[str]) -> list[str]:
    """The applied order; items that only the live list has stay before the items that they stood before."""
    wanted, at = set(applied), 0
    places: dict[str, int] = {}
    for index, element in enumerate(live):
        # The first place counts: a live list may have an element twice.
        places.setdefault(element, index)
    order: list[str] = []

    def take_live(until: int | None) -> None:
        """Take over live-only items: up to an index, or until one comes that the applied list places."""
        nonlocal at
        while at < len(live) and (live[at] not in wanted if until is None else at < until):
            if live[at] not in wanted:
                order.append(live[at])
            at += 1

    for element in applied:
        place = places.get(element)
        take_live(place)
        order.append(element)
        if place is not None:
            at = max(at, place + 1)
    take_live(len(live))
    return order


class _Removal(Struct, frozen=True):
    paths: FieldSet
    kept: FieldSet
    prefixes: frozenset[Path]


def _remove_fields(value: Any, schema: JsonObject, path: Path, removal: _Removal) -> Any:
    if path in removal.paths:
        return _ABSENT
    children = _children(value, schema, strict=False) if path in removal.prefixes else None
    if not children:
        return clone(value)
    left = [
        (child.element, item)
        for child in children
        if (item := _remove_fields(child.value, child.schema, (*path, child.element), removal)) is not _ABSENT
    ]
    if not left and path not in removal.kept:
        return _ABSENT
    if isinstance(value, dict):
        return {element.removeprefix("f:"): item for element, item in left}
    return [item for _, item in left]


def _prefixes(paths: FieldSet) -> frozenset[Path]:
    found: set[Path] = set()
    for path in paths:
        # From the longest on: where one is known, so are all that are shorter.
        for length in range(len(path) - 1, -1, -1):
            if path[:length] in found:
                break
            found.add(path[:length])
    return frozenset(found)
