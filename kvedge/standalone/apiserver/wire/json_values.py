"""JSON documents as Python holds them: copying, comparing and naming their values the way JSON means them.

Called by the patches, the schema and server-side apply. Pure. Python thinks that `True == 1`; JSON does not, and a
patch that turns a number into a boolean is a change.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Final

from kvedge.resources.codec import JsonValue

# Deeper than any document that somebody wrote, and far from where walking it would exhaust Python's stack.
MAX_DEPTH: Final = 128


def clone(value: JsonValue) -> JsonValue:
    """A deep copy; several times faster than `copy.deepcopy`, as JSON has neither cycles nor shared parts."""
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value


def is_deep(value: JsonValue, limit: int) -> bool:
    """Whether objects and arrays are nested in more levels than that; the outermost is the first. Does not recurse."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
    return bool(level)


def measure(value: JsonValue, limit: int) -> tuple[int, int]:
    """How many members and items there are in all, and how many steps from the top lead to them. Does not recurse.

    Raises:
        RecursionError: objects and arrays are nested in more levels than `limit`.
    """
    count = steps = 0
    level = [value] if isinstance(value, dict | list) else []
    for depth in range(1, limit + 1):
        if not level:
            return count, steps
        members = sum(map(len, level))
        count, steps = count + members, steps + depth * members
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
    if level:
        raise RecursionError(f"nested in more than {limit} levels")
    return count, steps


def same(left: JsonValue, right: JsonValue) -> bool:
    """Whether two values are the same JSON: numbers by value, a boolean never equal to a number."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            return False
        return all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        return all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def identity(value: JsonValue) -> Hashable:
    """What stands for a value in a set or a dict: two values have the same one when `same` says that they are."""
    if isinstance(value, dict):
        return (dict, frozenset((key, identity(item)) for key, item in value.items()))
    if isinstance(value, list):
        return (list, tuple(map(identity, value)))
    return (bool, value) if isinstance(value, bool) else value


def compact(value: JsonValue) -> str:
    """The canonical text of a value: sorted keys, no blanks. Equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def type_word(value: JsonValue) -> str:
    """The JSON type as schemas call it: object, array, string, boolean, integer, number or null."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case dict():
            return "object"
    return "array"
