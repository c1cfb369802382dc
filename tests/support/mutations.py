"""Documents that are nearly right: what a fuzz target is fed. The same seed makes the same documents."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

# What replaces a value: of every JSON type, at and beyond the edges.
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    -0.0,
    1e300,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**30,
    "",
    " ",
    "a",
    "A/b",
    "x" * 300,
    "\u0000",
    "\ud7ff\ue000",
    "🦆",
    "..",
    "-",
    "1",
    "0x10",
    "true",
    "2020-01-01T00:00:00Z",
    "9999-99-99",
    [],
    [None],
    [[]],
    [{}],
    ["a", 1, None],
    {},
    {"": None},
    {"a": {}},
    {"name": "x"},
    {"f:x": {}},
    {"$patch": "delete"},
)
_KEYS = (
    "",
    "a",
    "name",
    "metadata",
    "spec",
    "status",
    "$patch",
    "$setElementOrder/containers",
    "x" * 300,
    "/",
    "~",
    ".",
)


def changed(document: Any, chance: random.Random) -> Any:
    """A copy with one to four things wrong with it."""
    result = copy.deepcopy(document)
    for _ in range(chance.randint(1, 4)):
        places = list(_places(result))
        if not places:
            return chance.choice(_VALUES)
        parent, key = chance.choice(places)
        action = chance.random()
        if action < 0.5:
            parent[key] = copy.deepcopy(chance.choice(_VALUES))
        elif action < 0.65:
            del parent[key]
        elif action < 0.8:
            other, place = chance.choice(places)
            if place in other if isinstance(other, dict) else place < len(other):
                parent[key] = copy.deepcopy(other[place])
        elif isinstance(parent, dict):
            parent[chance.choice(_KEYS)] = copy.deepcopy(chance.choice(_VALUES))
        else:
            parent.append(copy.deepcopy(chance.choice(_VALUES)))
    return result


def torn(text: bytes, chance: random.Random) -> bytes:
    """The bytes with a few of them wrong, missing or doubled."""
    data = bytearray(text)
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(data) + 1)
        action = chance.random()
        if action < 0.3:
            data[place:place] = bytes([chance.randrange(256)])
        elif action < 0.5:
            data[place : place + chance.randint(1, 8)] = b""
        elif action < 0.7:
            data[place:place] = chance.choice(
                (
                    b'"',
                    b"{",
                    b"}",
                    b"[",
                    b"]",
                    b",",
                    b":",
                    b"\\",
                    b"\\u",
                    b"\n- ",
                    b"&a ",
                    b"*a",
                    b"!!",
                    b"\x00",
                    b"1e9",
                )
            )
        elif action < 0.85:
            data[place : place + 1] = bytes([chance.randrange(256)])
        else:
            start = chance.randrange(len(data) + 1)
            data[place:place] = data[start : start + chance.randint(1, 40)]
    return bytes(data)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [document]
    while waiting:
        item = waiting.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else []
        for key in keys:
            yield item, key
            waiting.append(item[key])


def as_json(document: Any) -> bytes:
    """The document as a client sends it."""
    return json.dumps(document).encode("utf-8", "surrogatepass")
