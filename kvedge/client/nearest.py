"""Words that are spelt like a word that nobody knows.

Called where a verb, a kind or an object is not found. Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """At most so many of `known` that may have been meant, the likeliest first."""
    names = list(known)
    found = difflib.get_close_matches(word, names, count)
    # A part of a long name is no close match, and still what a user may remember.
    parts = [name for name in names if word and (word in name or name.startswith(word[:3])) and name not in found]
    return (found + parts)[:count]


def or_nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error message: " Did you mean start or restart?", or nothing."""
    found = nearest(word, known)
    if not found:
        return ""
    *first, last = found
    return f" Did you mean {', '.join(first)} or {last}?" if first else f" Did you mean {last}?"
