"""The part of Kubernetes' JSONPath that printer columns and selectable fields use.

Called by table_manifest for each cell and by crd_rules, which refuses what cannot be parsed. Pure. Known are `.name`,
`.a\\.b`, `['name']`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `..name` and filters such as `[?(@.type=='Ready')]` and
`[?(@.name)]`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from kvedge.resources.codec import JsonValue

Step = Callable[[JsonValue], Iterator[JsonValue]]

_NAME: Final = re.compile(r"\.(?P<name>(?:\\.|[^.\[\]\\\s])+)")
_DEEP: Final = re.compile(r"\.\.(?P<name>(?:\\.|[^.\[\]\\\s])+)")
_QUOTED: Final = re.compile(r"""\[(?P<quote>['"])(?P<name>(?:\\.|(?!(?P=quote)).)*)(?P=quote)\]""")
_RANGE: Final = re.compile(r"\[(?P<start>-?\d*)(?P<colon>:)?(?P<stop>-?\d*)\]")
_ALL: Final = re.compile(r"\[\*\]|\.\*")
_FILTER: Final = re.compile(
    r"""\[\?\(\s*(?P<left>@[^=!<>\s]*)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>'[^']*'|"[^"]*"|[^\s)]+))?\s*\)\]"""
)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


class JsonPathError(ValueError):
    """A path that is not of the known form."""


class JsonPath(Struct, frozen=True):
    """A parsed path."""

    steps: tuple[Step, ...]

    def find(self, document: JsonValue) -> list[JsonValue]:
        """Every value that the path leads to, in the document's order; none when there is nothing."""
        found = [document]
        for step in self.steps:
            found = [value for item in found for value in step(item)]
        return found


@lru_cache(maxsize=1024)
def parse(path: str) -> JsonPath:
    """Parse a path such as `.status.conditions[?(@.type=='Ready')].status`; braces around it are allowed.

    Raises:
        JsonPathError: naming the part that makes no sense.
    """
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = text.removeprefix("$")
    if text and text[0] not in ".[":
        text = "." + text
    steps, at = [], 0
    while at < len(text):
        step, length = _step(text[at:])
        steps.append(step)
        at += length
    return JsonPath(tuple(steps))


def _step(text: str) -> tuple[Step, int]:
    if match := _DEEP.match(text):
        return _descendants(_unescape(match["name"])), match.end()
    if match := _ALL.match(text):
        return _children, match.end()
    if match := _NAME.match(text) or _QUOTED.match(text):
        return _member(_unescape(match["name"])), match.end()
    if (match := _RANGE.match(text)) and (match["colon"] or match["start"]):
        return _items(match), match.end()
    if match := _FILTER.match(text):
        return _filter(match), match.end()
    if text == ".":
        return lambda value: iter((value,)), 1
    raise JsonPathError(f"unexpected path string, expected a simple path: {text!r} is not understood")


def _unescape(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _member(name: str) -> Step:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _children(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(name: str) -> Step:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, dict) and name in value:
            yield value[name]
        for child in _children(value):
            yield from step(child)

    return step


def _items(match: re.Match[str]) -> Step:
    start = int(match["start"]) if match["start"] else None
    stop = int(match["stop"]) if match["stop"] else None

    def step(value: JsonValue) -> Iterator[JsonValue]:
        if not isinstance(value, list):
            return
        if match["colon"]:
            yield from value[start:stop]
        elif start is not None and -len(value) <= start < len(value):
            yield value[start]

    return step


def _filter(match: re.Match[str]) -> Step:
    left, word, right = match["left"][1:], match["operator"], match["right"]
    inner = parse(left) if left else JsonPath(())
    wanted = _literal(right) if right else None

    def step(value: JsonValue) -> Iterator[JsonValue]:
        for item in value if isinstance(value, list) else []:
            found = inner.find(item)
            if found and (word is None or _compare(found[0], word, wanted)):
                yield item

    return step


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise JsonPathError(f"unrecognized value {text!r} in a filter") from error


def _compare(left: Any, word: str, right: Any) -> bool:
    numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
    if not numbers and type(left) is not type(right):
        return word == "!="
    return _COMPARE[word](left, right)
