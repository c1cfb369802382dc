"""A preset, taken apart once for all VMIs that it may be for.

Made by preset_follower.py for each change of a preset, read by preset_plan.py for each VMI. Pure. A part is kept as it
was written and as it reads with its defaults, so that comparing two presets decodes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from kvedge.api.admission.spec_verdict import member_of
from kvedge.resources.codec import DecodeError, JsonObject, decode, encode
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.types.domain import DomainSpec

# What is brought as a whole, by its place below the domain.
WHOLE: Final = ("cpu", "firmware", "features", "ioThreadsPolicy")
WATCHDOG: Final = "devices.watchdog"
OFFSET: Final = ("utc", "timezone")
# What may be written in several ways; the others are compared as they stand.
_TYPED: Final = frozenset({*WHOLE, WATCHDOG, "clock.timer"})


class Part(Struct, frozen=True):
    """What a preset brings to one place: as it was written, and with its defaults written out."""

    value: Any
    plain: Any

    def is_same(self, other: Part) -> bool:
        """Whether two parts mean the same: what is left out is what is written out as its default."""
        return bool(self.value == other.value or self.plain == other.plain)


class Preset(Struct, frozen=True):
    """One preset: the labels that it is for, its domain, and the parts of it by their place below the domain."""

    name: str
    selector: LabelSelector
    domain: JsonObject
    parts: Mapping[str, Part]


def make_preset(name: str, selector: LabelSelector, domain: JsonObject) -> Preset:
    """The preset with its parts."""
    return Preset(name, selector, domain, {place: part_of(place, value) for place, value in _places(domain)})


def part_of(place: str, value: Any) -> Part:
    """A part of a preset's domain, or of a VMI's."""
    return Part(value, _plain(place, value) if place in _TYPED else value)


def _places(domain: JsonObject) -> Iterator[tuple[str, Any]]:
    """What a preset brings, by its place below the domain."""
    for key, value in member_of(member_of(domain, "resources"), "requests").items():
        yield f"resources.requests[{key}]", value
    for name in WHOLE:
        if domain.get(name) is not None:
            yield name, domain[name]
    if domain.get("clock") is not None:
        clock = member_of(domain, "clock")
        yield "clock.clockoffset", {name: clock.get(name) for name in OFFSET}
        if clock.get("timer") is not None:
            yield "clock.timer", clock["timer"]
    if (watchdog := member_of(domain, "devices").get("watchdog")) is not None:
        yield WATCHDOG, watchdog


def _plain(place: str, value: Any) -> Any:
    document: JsonObject = {}
    inner = document
    *parents, last = place.split(".")
    for name in parents:
        inner = inner.setdefault(name, {})
    inner[last] = value
    try:
        return encode(decode(DomainSpec, document))
    except DecodeError:
        return value
