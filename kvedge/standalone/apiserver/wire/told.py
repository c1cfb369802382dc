"""What clients are told of what they sent, kept short: a value, a path, a text, and how many of each.

Called by whatever words an error or a warning. Pure. What a client sent may be megabytes, and an error that repeats it
is as large again: each of these takes time for what it shows, not for what there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from kvedge.resources.codec import JsonValue

# A person reads no more of them, and each process on an answer's way holds it in memory.
MOST_TOLD: Final = 50
LONGEST_VALUE: Final = 256
LONGEST_TEXT: Final = 1024
LONGEST_PATH: Final = 512
_MORE: Final = "…"


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text, or its beginning."""
    return text if len(text) <= longest else text[: longest - 1] + _MORE


def show(value: JsonValue) -> str:
    """The JSON text of a value, or its beginning."""
    pieces, length = [], 0
    for piece in _pieces(value):
        pieces.append(piece)
        length += len(piece)
        if length > LONGEST_VALUE:
            break
    return cut("".join(pieces), LONGEST_VALUE)


def child(path: str, key: str) -> str:
    """The path of a member. A path that is too long already stands for everything below it."""
    if len(path) + len(key) < LONGEST_PATH:
        return f"{path}.{key}" if path else key
    return path if path.endswith(_MORE) else cut(f"{path}.{key[:LONGEST_PATH]}" if path else key, LONGEST_PATH)


def member_path(path: str, key: str) -> str:
    """The path of a member whose key somebody chose, as lists and maps are written."""
    return path if path.endswith(_MORE) else cut(f"{path}[{key[:LONGEST_PATH]}]", LONGEST_PATH)


def note(paths: list[str], path: str) -> None:
    """Add a path to those that are told of, unless they are many already."""
    if len(paths) <= MOST_TOLD:
        paths.append(path)


def _pieces(value: JsonValue) -> Iterator[str]:
    """The JSON text bit by bit, so that whoever has enough of it stops; long texts are cut."""
    if isinstance(value, dict):
        mark = "{"
        for key, item in value.items():
            yield f"{mark}{_scalar(str(key))}:"
            yield from _pieces(item)
            mark = ","
        yield "{}" if mark == "{" else "}"
    elif isinstance(value, list | tuple):
        mark = "["
        for item in value:
            yield mark
            yield from _pieces(item)
            mark = ","
        yield "[]" if mark == "[" else "]"
    else:
        yield _scalar(value)


def _scalar(value: JsonValue) -> str:
    return json.dumps(value[: LONGEST_VALUE + 1] if isinstance(value, str) else value, ensure_ascii=False)
