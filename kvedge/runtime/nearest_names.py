"""Names that are spelt like an unknown word, for the end of an error: fields, settings, verbs, objects.

Called wherever such a word is refused. Pure. Comparing is imported when it is needed: most words are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Of a field among many that are alike.
_CLOSE: Final = 0.7
# Of a setting or a verb, of which there are few.
CLOSE_ENOUGH: Final = 0.6
# No field or gate of ours is half as long, and comparing takes the longer the longer both are.
_LONGEST_NAME: Final = 80


def nearest_name(word: str, known: Iterable[str], closeness: float = _CLOSE) -> str:
    """The name of `known` that may be meant by `word`, in whatever case; empty when none is near."""
    import difflib

    if len(word) > _LONGEST_NAME:
        return ""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(word.lower(), by_lower, 1, closeness)
    return by_lower[close[0]] if close else ""


def nearest_names(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """At most so many of `known` that may have been meant, the likeliest first."""
    import difflib

    names = list(known)
    found = difflib.get_close_matches(word, names, count, CLOSE_ENOUGH)
    # A part of a long name is no close match, and still what a user may remember.
    parts = [name for name in names if word and (word in name or name.startswith(word[:3])) and name not in found]
    return (found + parts)[:count]


def or_nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error message: " Did you mean start or restart?", or nothing."""
    found = nearest_names(word, known)
    if not found:
        return ""
    *first, last = found
    return f" Did you mean {', '.join(first)} or {last}?" if first else f" Did you mean {last}?"
