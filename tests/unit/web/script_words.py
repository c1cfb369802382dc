"""The words in the pages' scripts: those that are looked up in a catalogue, and those that are shown without it.

Used by the tests beside it. It reads as much of JavaScript as our own scripts are written in, and no more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/) | (?P<text>"(?:[^"\\\n]|\\.)*") | (?P<template>`)
      | (?P<name>[A-Za-z_$#][\w$]*) | (?P<space>\s+) | (?P<sign>===|!==|=>|\?\?=|\?\?|\?\.|\.\.\.|.)""",
    re.VERBOSE | re.DOTALL,
)
_REGEX: Final = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
# A slash after one of these begins a pattern; after anything else it divides.
_BEFORE_REGEX: Final = frozenset("(,=:[!&|?{};")
_LETTERS: Final = re.compile(r"[A-Za-z]")
_SENTENCE: Final = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}")
# The arguments of calls that are shown; of `element` all that follow the attributes.
_SHOWN: Final = {
    "element": frozenset(range(2, 40)), "button": {0}, "note": {0}, "confirm": {0, 1}, "table": {0, 1},
    "complain": {0}, "say": {0}, "CallFailed": {1}, "tablePage": {0, 2, 3}, "tablePart": {0, 2, 3},
    "openingPart": {0}, "section": {0, 2},
}  # fmt: skip
_SHOWN_KEYS: Final = frozenset(("label", "about", "placeholder", "title", "aria-label", "message"))
_SHOWN_PLACES: Final = frozenset(("textContent", "title"))
# Names are the same in each language; classes are no words.
_NAMES: Final = re.compile(r"kvedge|YAML|HTTP")
_LOOKUPS: Final = frozenset(("t", "ts", "plural"))


@dataclass
class _Open:
    """A bracket that is open: whose call it is, and how far its commas have come."""

    sign: str
    callee: str
    place: int = 0
    key: str = ""
    texts: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class ScriptWords:
    """`sentences` are looked up; `plurals` by the second of their forms; `bare` are shown as they stand."""

    sentences: frozenset[str]
    plurals: frozenset[str]
    bare: tuple[str, ...]


def read_words(script: str) -> ScriptWords:
    """The words of one script."""
    sentences: set[str] = set()
    plurals: set[str] = set()
    bare: list[str] = []
    stack: list[_Open] = [_Open("", "")]
    before: list[str] = ["", "", ""]
    for kind, text in _tokens(script):
        top = stack[-1]
        if kind in ("text", "template"):
            top.texts.append((top.place, text))
            # A template must not be looked up either: no catalogue has it.
            if (top.callee not in _LOOKUPS or kind == "template") and _is_shown(text, stack, before):
                bare.append(text)
            before = [*before[1:], f'"{text}']
            continue
        if text in ("(", "[", "{"):
            stack.append(_Open(text, _callee(before) if text == "(" else ""))
        elif text in (")", "]", "}"):
            closed = stack.pop()
            _note(closed, sentences, plurals)
        elif text == ",":
            top.place += 1
            top.key = ""
        elif text == ":":
            top.key = before[-1].removeprefix('"')
        before = [*before[1:], text]
    return ScriptWords(frozenset(sentences), frozenset(plurals), tuple(bare))


def read_catalogue(script: str) -> dict[str, str | dict[str, str]]:
    """A catalogue, which is JSON besides its comments, its head and its last comma."""
    lines = [line for line in script.splitlines() if not line.startswith("//")]
    body = "\n".join(lines).removeprefix("export default ").rstrip().removesuffix("};").rstrip().removesuffix(",")
    pairs: list[tuple[str, str | dict[str, str]]] = json.loads(body + "}", object_pairs_hook=lambda found: found)
    found = {key: dict(value) if isinstance(value, list) else value for key, value in pairs}
    assert len(found) == len(pairs), "a sentence stands twice"
    return found


def places_of(text: str) -> set[str]:
    """What is put into a sentence."""
    return set(re.findall(r"\{(\w+)\}", text))


def _callee(before: list[str]) -> str:
    """Whose call an opening bracket is; of a method with a dot before it, besides those that show something."""
    is_method = before[-2] in (".", "?.") and before[-1] not in _SHOWN
    return f".{before[-1]}" if is_method else before[-1]


def _note(closed: _Open, sentences: set[str], plurals: set[str]) -> None:
    if closed.callee in ("t", "ts"):
        sentences |= {text for place, text in closed.texts if closed.callee == "ts" or place == 0}
    elif closed.callee == "plural":
        plurals |= {text for place, text in closed.texts if place == 2}


def _is_shown(text: str, stack: list[_Open], before: list[str]) -> bool:
    words = _NAMES.sub("", text.replace("{}", ""))
    if not _LETTERS.search(words) or before[-1] in ("===", "!==", "import", "from"):
        return False
    if before[-1] == "=":
        return before[-2] in _SHOWN_PLACES or bool(_SENTENCE.search(words))
    call = next((each for each in reversed(stack) if each.callee), None)
    if call is not None and call.place in _SHOWN.get(call.callee, ()):
        inner = stack[stack.index(call) + 1 :]
        return not any(each.sign == "{" for each in inner) or stack[-1].key in _SHOWN_KEYS
    return stack[-1].key in _SHOWN_KEYS or bool(_SENTENCE.search(words))


def _tokens(script: str) -> Iterator[tuple[str, str]]:
    place, last = 0, ""
    while place < len(script):
        if script[place] == "/" and last in _BEFORE_REGEX and (found := _REGEX.match(script, place)):
            place, last = found.end(), "/"
            continue
        found = _TOKEN.match(script, place)
        assert found is not None
        kind = str(found.lastgroup)
        place = found.end()
        if kind == "template":
            pieces, insides, place = _template(script, place)
            yield "template", "{}".join(pieces)
            for inside in insides:
                yield "sign", "("
                yield from _tokens(inside)
                yield "sign", ")"
        elif kind == "text":
            yield kind, json.loads(found[0])
        elif kind not in ("comment", "space"):
            yield kind, found[0]
        if kind not in ("comment", "space"):
            last = found[0][-1]


def _template(script: str, place: int) -> tuple[list[str], list[str], int]:
    """What stands in it, the code between, and where it ends."""
    pieces, insides = [""], []
    while script[place] != "`":
        if script.startswith("${", place):
            start, depth, place = place + 2, 1, place + 2
            while depth:
                if script[place] == "`":
                    place = _template(script, place + 1)[2]
                    continue
                depth += {"{": 1, "}": -1}.get(script[place], 0)
                place += 1
            insides.append(script[start : place - 1])
            pieces.append("")
        else:
            pieces[-1] += script[place]
            place += 2 if script[place] == "\\" else 1
    return pieces, insides, place + 1
