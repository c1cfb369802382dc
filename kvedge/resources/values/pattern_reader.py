r"""Reads regular expressions as Go writes them, into nodes without captures: what may be where, and how often.

Called by `key_patterns`. Pure. Go's syntax is read (https://golang.org/s/re2syntax), without Unicode's classes (`\pL`)
and `\C`: keys are ASCII. Flags that mean nothing for a key (`(?msU)`) are read over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

# As in Go.
_MOST_REPEATS: Final = 1000

# A set of characters: a bit for each of ASCII, and one for all others.
OTHERS: Final = 128
_ALL: Final = (1 << (OTHERS + 1)) - 1
_NEWLINE: Final = 1 << 10


def _set_of(characters: Iterable[str]) -> int:
    found = 0
    for each in characters:
        found |= 1 << min(ord(each), OTHERS)
    return found


def _span(first: str, last: str) -> int:
    return _set_of(map(chr, range(ord(first), ord(last) + 1)))


_DIGIT: Final = _span("0", "9")
_LOWER: Final = _span("a", "z")
_UPPER: Final = _span("A", "Z")
WORD: Final = _DIGIT | _LOWER | _UPPER | _set_of("_")
_SPACE: Final = _set_of("\t\n\f\r ")
_CLASSES: Final = {"d": _DIGIT, "s": _SPACE, "w": WORD}
_PUNCTUATION: Final = _span("!", "/") | _span(":", "@") | _span("[", "`") | _span("{", "~")
_POSIX: Final = {
    "alnum": _DIGIT | _LOWER | _UPPER,
    "alpha": _LOWER | _UPPER,
    "ascii": _span("\0", "\x7f"),
    "blank": _set_of("\t "),
    "cntrl": _span("\0", "\x1f") | _set_of("\x7f"),
    "digit": _DIGIT,
    "graph": _span("!", "~"),
    "lower": _LOWER,
    "print": _span(" ", "~"),
    "punct": _PUNCTUATION,
    "space": _SPACE | _set_of("\v"),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": _DIGIT | _span("A", "F") | _span("a", "f"),
}
_ESCAPES: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_PLACES: Final = {"A": "start", "z": "end", "b": "edge", "B": "no edge"}


class PatternError(ValueError):
    """A pattern cannot be used; the text says why."""


class Chars(NamedTuple):
    among: int


class Place(NamedTuple):
    kind: str


class Row(NamedTuple):
    parts: tuple[Node, ...]


class Choice(NamedTuple):
    parts: tuple[Node, ...]


class Repeat(NamedTuple):
    part: Node
    least: int
    most: int | None


Node: TypeAlias = "Chars | Place | Row | Choice | Repeat"


class PatternReader:
    """Reads one pattern, from left to right."""

    def __init__(self, text: str) -> None:
        """Nothing is read yet."""
        self._text = text
        self._at = 0
        self._folds = False

    def read(self) -> Node:
        """The whole pattern.

        Raises:
            PatternError: when it is none.
        """
        node = self._choice()
        if self._at < len(self._text):
            raise PatternError("unexpected )")
        return node

    def _choice(self) -> Node:
        """What stands between two brackets; flags that are set in there end with it."""
        folds = self._folds
        parts = [self._row()]
        while self._take("|"):
            parts.append(self._row())
        self._folds = folds
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _row(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._take("\\Q"):
                end = self._text.find("\\E", self._at)
                quoted = self._text[self._at : end if end >= 0 else len(self._text)]
                self._at += len(quoted) + (2 if end >= 0 else 0)
                parts += [self._chars(_set_of(each)) for each in quoted]
                if parts and quoted:
                    parts.append(self._repeat_node(parts.pop()))
                continue
            parts.append(self._repeat_node(self._atom()))
        return parts[0] if len(parts) == 1 else Row(tuple(parts))

    def _repeat_node(self, node: Node) -> Node:
        found = self._times()
        if found is None:
            return node
        # Which of several matches is the shortest does not matter.
        self._take("?")
        if self._times() is not None:
            raise PatternError("invalid nested repetition operator")
        return Repeat(node, *found)

    def _times(self) -> tuple[int, int | None] | None:
        for sign, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return times
        end = self._text.find("}", self._at)
        if self._at >= len(self._text) or self._text[self._at] != "{" or end < 0:
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            # As in Go, a brace that begins no number of times is one.
            return None
        self._at = end + 1
        low = int(least)
        high = low if not comma else int(most) if most else None
        if max(low, high or 0) > _MOST_REPEATS or (high is not None and high < low):
            raise PatternError(f"invalid repeat count {{{least}{comma}{most}}}")
        return low, high

    def _atom(self) -> Node:
        sign = self._next()
        match sign:
            case "(":
                return self._group()
            case "[":
                return self._bracket()
            case ".":
                return Chars(_ALL & ~_NEWLINE)
            case "^":
                return Place("start")
            case "$":
                return Place("end")
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise PatternError(f"missing argument to repetition operator: {sign}")
        return self._chars(_set_of(sign))

    def _group(self) -> Node:
        if not self._take("?"):
            return self._close_group(self._choice())
        if self._take("P<") or (self._take("<") and not self._peek_is("=!")):
            name = self._until(">")
            if not name.isidentifier():
                raise PatternError("invalid named capture")
            return self._close_group(self._choice())
        before, is_on = self._folds, True
        while (flag := self._next()) not in ":)":
            if flag == "-" and is_on:
                is_on = False
            elif flag == "i":
                self._folds = is_on
            elif flag not in "msU":
                raise PatternError(f"invalid or unsupported Perl syntax: (?{flag}")
        if flag == ")":
            # For the rest of the group around.
            return Row(())
        node = self._close_group(self._choice())
        self._folds = before
        return node

    def _close_group(self, node: Node) -> Node:
        if not self._take(")"):
            raise PatternError("missing closing )")
        return node

    def _escape(self) -> Node:
        sign = self._next()
        if sign in _PLACES:
            return Place(_PLACES[sign])
        if sign.lower() in _CLASSES:
            among = _CLASSES[sign.lower()]
            return Chars(_ALL & ~among if sign.isupper() else among)
        return self._chars(_set_of(self._character(sign)))

    def _character(self, sign: str) -> str:
        """The one character that an escape stands for."""
        if sign in _ESCAPES:
            return _ESCAPES[sign]
        if sign == "x":
            digits = self._until("}") if self._take("{") else self._next() + self._next()
            return _code(digits, 16)
        if sign in "01234567":
            digits = sign
            while len(digits) < 3 and self._peek_is("01234567"):
                digits += self._next()
            if sign != "0" and len(digits) < 3:
                raise PatternError(f"invalid escape sequence: \\{sign}")
            return _code(digits, 8)
        if sign.isalnum() or ord(sign) >= OTHERS:
            raise PatternError(f"invalid escape sequence: \\{sign}")
        return sign

    def _bracket(self) -> Node:
        is_negated = self._take("^")
        among, is_first = 0, True
        while is_first or not self._take("]"):
            is_first = False
            among |= self._range()
        among = self._fold(among)
        return Chars(_ALL & ~among if is_negated else among)

    def _range(self) -> int:
        if self._take("[:"):
            name = self._until(":]")
            found = _POSIX.get(name.removeprefix("^"))
            if found is None:
                raise PatternError(f"invalid character class range: [:{name}:]")
            return _ALL & ~found if name.startswith("^") else found
        first = self._next()
        if first == "\\":
            sign = self._next()
            if sign.lower() in _CLASSES:
                among = _CLASSES[sign.lower()]
                return _ALL & ~among if sign.isupper() else among
            first = self._character(sign)
        if self._text[self._at : self._at + 1] != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return _set_of(first)
        self._at += 1
        last = self._next()
        if last == "\\":
            last = self._character(self._next())
        if last < first:
            raise PatternError(f"invalid character class range: {first}-{last}")
        # All that is not ASCII has one bit.
        return _span(first, min(last, chr(OTHERS))) if ord(first) < OTHERS else 1 << OTHERS

    def _chars(self, among: int) -> Chars:
        return Chars(self._fold(among))

    def _fold(self, among: int) -> int:
        if not self._folds:
            return among
        upper, lower = ord("A"), ord("a")
        return among | (((among & _UPPER) >> upper) << lower) | (((among & _LOWER) >> lower) << upper)

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise PatternError("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, word: str) -> bool:
        if not self._text.startswith(word, self._at):
            return False
        self._at += len(word)
        return True

    def _peek_is(self, signs: str) -> bool:
        return self._at < len(self._text) and self._text[self._at] in signs

    def _until(self, word: str) -> str:
        end = self._text.find(word, self._at)
        if end < 0:
            raise PatternError("it ends too early")
        found = self._text[self._at : end]
        self._at = end + len(word)
        return found


def _is_number(text: str) -> bool:
    # Longer ones are more than a thousand as well.
    return text.isascii() and text.isdigit() and len(text) <= 6


def _code(digits: str, base: int) -> str:
    if not digits or not digits.isalnum() or not digits.isascii():
        raise PatternError("invalid escape sequence")
    try:
        return chr(int(digits, base))
    except (ValueError, OverflowError) as error:
        raise PatternError("invalid escape sequence") from error
