"""Strategic merge patch: what `kubectl apply`, `edit` and `patch` send for built-in kinds.

Called by the server's PATCH. Pure; the inputs are not touched. Which lists are merged by which key comes from the
schema (`builtin_schemas`): x-kubernetes-patch-merge-key and x-kubernetes-patch-strategy; a list without them is
replaced. Lists are indexed by their keys: merging takes time for both lists, not for each pair of items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import chain
from typing import Any, Final, NoReturn, cast

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.json_values import clone, identity, type_word
from kvedge.standalone.apiserver.wire.told import LONGEST_VALUE, cut, show

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"
_NOWHERE: Final = 1 << 30


def apply(document: JsonObject, patch: JsonValue, schema: JsonObject) -> JsonObject:
    """The document with the patch merged in as the kind's schema says.

    Raises:
        BadRequest: when the patch, or a directive in it, is malformed.
    """
    if not isinstance(patch, dict):
        raise BadRequest(f"error decoding patch: a strategic merge patch must be an object, not {type_word(patch)}")
    # Copied once, here: what follows changes the copy.
    return _merge_map(cast(JsonObject, clone(document)), patch, schema)


def _merge_map(original: JsonObject, patch: JsonObject, schema: JsonObject) -> JsonObject:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: clone(value) for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive is not None:
        _refuse(f"unknown patch type: {cut(str(directive), LONGEST_VALUE)} in map: {show(patch)}")
    merged = _retain(original, patch)
    for key in dict.fromkeys(_field_of(key) for key in patch if key != _RETAIN):
        _merge_field(merged, key, patch, _property(schema, key))
    return merged


def _field_of(key: str) -> str:
    """The field that a key of a patch is about, directive or not."""
    return key.removeprefix(_ORDER).removeprefix(_DELETE)


def _property(schema: JsonObject, key: str) -> JsonObject:
    found = (schema.get("properties") or {}).get(key, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def _retain(original: JsonObject, patch: JsonObject) -> JsonObject:
    """The original's fields without those that $retainKeys does not name."""
    if _RETAIN not in patch:
        return dict(original)
    keys = patch[_RETAIN]
    if not isinstance(keys, list):
        _refuse("invalid patch format of retainKeys")
    retained = set(map(identity, keys))
    if any(value is not None and not key.startswith("$") and key not in retained for key, value in patch.items()):
        _refuse("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in retained}


def _merge_field(merged: JsonObject, key: str, patch: JsonObject, schema: JsonObject) -> None:
    """Take one field over, with the directives about it: deletions first, then the values, then their order."""
    if _DELETE + key in patch and isinstance(merged.get(key), list):
        unwanted = set(map(identity, _list_of(patch[_DELETE + key], "invalid patch format of primitive list")))
        merged[key] = [item for item in merged[key] if identity(item) not in unwanted]
    if key in patch:
        if patch[key] is None:
            merged.pop(key, None)
        else:
            _merge_value(merged, key, patch, schema)
    if _ORDER + key in patch and isinstance(merged.get(key), list) and key not in patch:
        order = _list_of(patch[_ORDER + key], "invalid patch format of setElementOrder list")
        merged[key] = _order(merged[key], order, merged[key], _merge_key(schema))


def _merge_value(merged: JsonObject, key: str, patch: JsonObject, schema: JsonObject) -> None:
    original, value = merged.get(key), patch[key]
    strategy = str(schema.get("x-kubernetes-patch-strategy", "")).split(",")
    if isinstance(original, dict) and isinstance(value, dict) and "replace" not in strategy:
        merged[key] = _merge_map(original, value, schema)
        return
    if isinstance(original, list) and isinstance(value, list) and "merge" in strategy:
        order = _order_for(key, patch, value, _merge_key(schema))
        merged[key] = _merge_list(original, value, order, schema)
        return
    kept, keep = _without_directives(value)
    if keep:
        merged[key] = kept
    else:
        merged.pop(key, None)


def _order_for(key: str, patch: JsonObject, items: list[Any], merge_key: str) -> list[Any]:
    """The order that the patch asks for: of its $setElementOrder, else of its own items."""
    plain = [item for item in items if not _is_directive(item)]
    if _ORDER + key not in patch:
        return plain
    order = _list_of(patch[_ORDER + key], "invalid patch format of setElementOrder list")
    places = _Places(order, merge_key)
    found = [places.of(item) for item in plain]
    if _NOWHERE in found or found != sorted(found):
        _refuse(f"The order in patch list:\n{show(items)}\n doesn't match $setElementOrder list:\n{show(order)}\n")
    return order


def _merge_list(original: list[Any], patch: list[Any], order: list[Any], schema: JsonObject) -> list[Any]:
    merge_key = _merge_key(schema)
    if not merge_key:
        # A list of scalars: each value once.
        united: dict[Hashable, Any] = {}
        for item in chain(original, patch):
            united.setdefault(identity(item), item)
        return _order(list(united.values()), order, original, "")
    replaces = any(_is_directive(item) == "replace" for item in patch)
    kept = _Items([] if replaces else original, merge_key)
    for item in patch:
        directive = _is_directive(item)
        if directive == "delete":
            kept.remove(_key_of(item, merge_key))
        elif directive not in {"", "replace"}:
            _refuse(f"unknown patch type: {cut(directive, LONGEST_VALUE)} in map: {show(item)}")
        elif not directive:
            kept.merge(item, schema.get("items") or {})
    return _order(kept.items(), order, original, merge_key)


class _Items:
    """The items of a list while a patch is merged in, found by their keys; of those with one key the first is meant."""

    def __init__(self, items: list[Any], merge_key: str) -> None:
        self._merge_key = merge_key
        self._items: dict[int, Any] = dict(enumerate(items))
        self._places: dict[Hashable, list[int]] = {}
        for place, item in self._items.items():
            self._places.setdefault(self._identity(item), []).append(place)
        self._next = len(items)

    def items(self) -> list[Any]:
        """The items that are left, in their order."""
        return list(self._items.values())

    def remove(self, key: JsonValue) -> None:
        """Take away all items of a key."""
        for place in self._places.pop(identity(key), ()):
            del self._items[place]

    def merge(self, item: JsonObject, schema: JsonObject) -> None:
        """Merge an item into the one that has its key, or add it."""
        key = identity(_key_of(item, self._merge_key))
        places = self._places.setdefault(key, [])
        if places:
            self._items[places[0]] = _merge_map(self._items[places[0]], item, schema)
            return
        places.append(self._next)
        self._items[self._next] = _without_directives(item)[0]
        self._next += 1

    def _identity(self, item: Any) -> Hashable:
        """The key of an item; what is no object has none that a patch could name."""
        return identity(item.get(self._merge_key)) if isinstance(item, dict) else (None, identity(item))


def _order(items: list[Any], order: list[Any], original: list[Any], merge_key: str) -> list[Any]:
    """Items that `order` names in its order; the others, which only the server has, where they were as far as
    possible.
    """
    wanted, before = _Places(order, merge_key), _Places(original, merge_key)
    named = sorted((item for item in items if wanted.of(item) != _NOWHERE), key=wanted.of)
    others = deque(sorted((item for item in items if wanted.of(item) == _NOWHERE), key=before.of))
    placed: list[Any] = []
    for item in named:
        where = before.of(item)
        while others and where != _NOWHERE and before.of(others[0]) < where:
            placed.append(others.popleft())
        placed.append(item)
    return [*placed, *others]


class _Places:
    """Where items stand in a list, by their keys where it has some: the first place of each."""

    def __init__(self, items: list[Any], merge_key: str) -> None:
        self._merge_key = merge_key
        self._places: dict[Hashable, int] = {}
        for place, item in enumerate(items):
            self._places.setdefault(self._identity(item), place)

    def of(self, item: Any) -> int:
        """The place of the item with this one's key, or _NOWHERE."""
        return self._places.get(self._identity(item), _NOWHERE)

    def _identity(self, item: Any) -> Hashable:
        return identity(item.get(self._merge_key) if self._merge_key and isinstance(item, dict) else item)


def _without_directives(value: JsonValue) -> tuple[JsonValue, bool]:
    """A value that had nothing to merge with: without directives and nulls; False when it is only a directive."""
    if isinstance(value, dict):
        if _PATCH in value:
            if value[_PATCH] == "replace":
                rest = {key: item for key, item in value.items() if key != _PATCH}
                return _without_directives(rest)[0], True
            return None, False
        kept = {}
        for key, item in value.items():
            if item is None or key == _RETAIN or key.startswith((_ORDER, _DELETE)):
                continue
            inner, keep = _without_directives(item)
            if keep:
                kept[key] = inner
        return kept, True
    if isinstance(value, list):
        return [inner for inner, keep in map(_without_directives, value) if keep], True
    return value, True


def _is_directive(item: Any) -> str:
    return str(item[_PATCH]) if isinstance(item, dict) and _PATCH in item else ""


def _merge_key(schema: JsonObject) -> str:
    return str(schema.get("x-kubernetes-patch-merge-key", ""))


def _key_of(item: Any, merge_key: str) -> JsonValue:
    if not isinstance(item, dict) or merge_key not in item:
        _refuse(f"map: {show(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _list_of(value: JsonValue, otherwise: str) -> list[Any]:
    if not isinstance(value, list):
        _refuse(otherwise)
    return value


def _refuse(why: str) -> NoReturn:
    raise BadRequest(why)
