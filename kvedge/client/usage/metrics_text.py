"""Reads Prometheus' text format 0.0.4, as far as kvedge writes it: one sample a line, without times.

Called by `guest_usage`. Pure. A line that makes no sense is left out: an api role of a later version may write more.
"""

from __future__ import annotations

import io
import re
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

_SAMPLE: Final = re.compile(r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)\{(?P<labels>[^\n]*)\} (?P<value>[^ \n]+)")
_LABEL: Final = re.compile(r'(?P<name>[A-Za-z_][A-Za-z0-9_]*)="(?P<value>(?:[^"\\]|\\.)*)"(?:,|$)')
_ESCAPED: Final = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """One value of a metric."""

    name: str
    labels: dict[str, str]
    value: float


def read_samples(text: bytes, names: Container[str]) -> Iterator[Sample]:
    """Each sample of a metric of these names, in the order of the text; of the others no copy is made."""
    # By "\n" alone: a label may hold what else ends a line.
    for raw in io.BytesIO(text):
        if raw.partition(b"{")[0].decode(errors="replace") not in names:
            continue
        found = _SAMPLE.fullmatch(raw.decode(errors="replace").removesuffix("\n"))
        if found is None:
            continue
        try:
            value = float(found["value"])
        except ValueError:
            continue
        labels = {item["name"]: _unescape(item["value"]) for item in _LABEL.finditer(found["labels"])}
        yield Sample(found["name"], labels, value)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)
