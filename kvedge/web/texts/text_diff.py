"""What differs between two texts, line by line, as a page shows it.

Called by `object_edit`. Pure; bounded for texts that have nothing in common.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

Line = tuple[str, str]

_CONTEXT: Final = 3
# A comparison of more lines than that, besides what both begin and end with, would take too long.
_MOST_COMPARED: Final = 1000
_MOST_SHOWN: Final = 4000
_GAP: Final = ("@", "")


def differing_lines(before: str, after: str) -> list[Line]:
    """Each line with `+`, `-` or a blank, and `@` where lines that are the same are left out; empty for no change."""
    if before == after:
        return []
    old, new = before.splitlines(), after.splitlines()
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    old_part, new_part = old[start : len(old) - end], new[start : len(new) - end]
    lines = [(" ", text) for text in old[max(0, start - _CONTEXT) : start]]
    lines += _compare(old_part, new_part)
    lines += [(" ", text) for text in old[len(old) - end :][:_CONTEXT]]
    return lines if len(lines) <= _MOST_SHOWN else [*lines[:_MOST_SHOWN], _GAP]


def _common(first: list[str], second: list[str]) -> int:
    """How many lines both begin with."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _compare(old: list[str], new: list[str]) -> Iterator[Line]:
    if max(len(old), len(new)) > _MOST_COMPARED:
        yield from (("-", text) for text in old)
        yield from (("+", text) for text in new)
        return
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT)
    for index, group in enumerate(groups):
        if index:
            yield _GAP
        for what, old_from, old_to, new_from, new_to in group:
            if what == "equal":
                yield from ((" ", text) for text in old[old_from:old_to])
                continue
            yield from (("-", text) for text in old[old_from:old_to])
            yield from (("+", text) for text in new[new_from:new_to])
