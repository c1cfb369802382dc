"""JSON patches (RFC 6902) between two documents of which one was made from the other.

Called by mutation_plan.py. Pure. Not the shortest ones that there are, which take long to find, but exact, and found in
the time that it takes to read both: objects are compared member by member, and whatever else differs is replaced whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvedge.resources.codec import JsonObject


def difference(before: JsonObject, after: JsonObject, at: str = "") -> Iterator[JsonObject]:
    """The operations that make `after` of `before`, which stands at the JSON pointer `at`."""
    for name in (*before, *(name for name in after if name not in before)):
        old, new = before.get(name), after.get(name)
        if old is not new and isinstance(old, dict) and isinstance(new, dict):
            yield from difference(old, new, _pointer(at, name))
        else:
            yield from member_difference(before, after, name, at)


def member_difference(before: JsonObject, after: JsonObject, name: str, at: str = "") -> Iterator[JsonObject]:
    """At most one operation: the member of that name is added, removed or replaced whole."""
    if name not in after:
        if name in before:
            yield {"op": "remove", "path": _pointer(at, name)}
    elif name not in before:
        yield {"op": "add", "path": _pointer(at, name), "value": after[name]}
    elif not _same(before[name], after[name]):
        yield {"op": "replace", "path": _pointer(at, name), "value": after[name]}


def _pointer(at: str, name: str) -> str:
    """RFC 6901."""
    return f"{at}/{name.replace('~', '~0').replace('/', '~1')}"


def _same(one: Any, other: Any) -> bool:
    """Whether they are the same JSON; Python takes true for 1."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)
