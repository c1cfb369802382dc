"""Regular expressions over keys of labels and annotations, as Go has them, in linear time.

Used by admission, which refuses what cannot be read, and by the controller. Pure. Python's own module backtracks: a
pattern of a few characters keeps it busy for hours. Here a pattern becomes a list of instructions, all of which are
followed at once, character by character.

>>> KeyPattern("^app|name$").matches("app.kubernetes.io/part-of")
True
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kvedge.resources.values.pattern_reader import (
    OTHERS,
    WORD,
    Chars,
    Choice,
    Node,
    PatternError,
    PatternReader,
    Place,
    Repeat,
    Row,
)

# Honest filters have a fraction of it. The work for one character is at most one look at each instruction.
MOST_INSTRUCTIONS: Final = 512
_LONGEST: Final = 256


class _Step(NamedTuple):
    """One instruction: a character of a set or a place, and what follows; neither stands for a fork."""

    among: int
    place: str
    follows: tuple[int, ...]


class KeyPattern:
    """One pattern, ready to be held against keys; it may match anywhere in them."""

    def __init__(self, text: str) -> None:
        """Read a pattern.

        Raises:
            PatternError: when it is none, or too large.
        """
        if len(text) > _LONGEST:
            raise PatternError(f"it is longer than {_LONGEST} characters")
        self._steps: list[_Step] = []
        self._work = 0
        # Instruction 0 is the end: whoever comes there has matched.
        self._steps.append(_Step(0, "", ()))
        self._first = self._emit(PatternReader(text).read(), 0)

    @property
    def size(self) -> int:
        """How many instructions it has."""
        return len(self._steps)

    def matches(self, key: str) -> bool:
        """Whether the pattern is found in a key."""
        pending = {self._first}
        for index in range(len(key) + 1):
            here = self._follow(pending, _places(key, index))
            if 0 in here:
                return True
            if index < len(key):
                bit = 1 << min(ord(key[index]), OTHERS)
                pending = {self._steps[each].follows[0] for each in here if self._steps[each].among & bit}
                pending.add(self._first)
        return False

    def _follow(self, pending: set[int], places: frozenset[str]) -> set[int]:
        """All instructions that can be reached without a character."""
        seen, todo = set(pending), list(pending)
        while todo:
            step = self._steps[todo.pop()]
            if step.among or (step.place and step.place not in places):
                continue
            for each in step.follows:
                if each not in seen:
                    seen.add(each)
                    todo.append(each)
        return seen

    def _emit(self, node: Node, after: int) -> int:
        """Add the instructions of a node, after which another one follows; where it begins."""
        # What is empty makes no instruction, and may be repeated a thousand times a thousand times all the same.
        self._work += 1
        if self._work > 4 * MOST_INSTRUCTIONS:
            raise PatternError("it is too large: have it repeat less")
        match node:
            case Chars(among):
                return self._add(_Step(among, "", (after,)))
            case Place(kind):
                return self._add(_Step(0, kind, (after,)))
            case Row(parts):
                for part in reversed(parts):
                    after = self._emit(part, after)
                return after
            case Choice(parts):
                return self._add(_Step(0, "", tuple(self._emit(part, after) for part in parts)))
            case Repeat(part, least, most):
                return self._emit_repeat(part, least, most, after)

    def _emit_repeat(self, part: Node, least: int, most: int | None, after: int) -> int:
        if most is None:
            fork = self._add(_Step(0, "", ()))
            self._steps[fork] = _Step(0, "", (self._emit(part, fork), after))
            begin = fork
        else:
            begin = after
            for _ in range(most - least):
                begin = self._add(_Step(0, "", (self._emit(part, begin), after)))
        for _ in range(least):
            begin = self._emit(part, begin)
        return begin

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= MOST_INSTRUCTIONS:
            raise PatternError("it is too large: have it repeat less")
        self._steps.append(step)
        return len(self._steps) - 1


class KeyFilter:
    """The filters of a clone: which keys stay. A leading `!` leaves out, and wins; `*` alone is every key."""

    def __init__(self, filters: Iterable[str]) -> None:
        """Read them.

        Raises:
            PatternError: when one is no pattern.
        """
        self._kept: list[KeyPattern] = []
        self._dropped: list[KeyPattern] = []
        for each in filters:
            if each.startswith("!"):
                self._dropped.append(KeyPattern(each[1:]))
            else:
                self._kept.append(KeyPattern(".*" if each == "*" else each))

    @property
    def size(self) -> int:
        """How many instructions they have in all."""
        return sum(each.size for each in (*self._kept, *self._dropped))

    def keeps(self, key: str) -> bool:
        """Whether a key stays."""
        return any(each.matches(key) for each in self._kept) and not any(each.matches(key) for each in self._dropped)


def _places(key: str, index: int) -> frozenset[str]:
    """What holds between two characters of a key."""
    found = []
    if index == 0:
        found.append("start")
    if index == len(key):
        found.append("end")
    before = index > 0 and _is_word(key[index - 1])
    after = index < len(key) and _is_word(key[index])
    found.append("edge" if before != after else "no edge")
    return frozenset(found)


def _is_word(sign: str) -> bool:
    return bool(1 << min(ord(sign), OTHERS) & WORD)
