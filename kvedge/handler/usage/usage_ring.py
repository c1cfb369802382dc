"""The ring of one guest: what it has used over the last hour, day and month, and the bytes that a file has of it.

Used by usage_keeper.py, in whose lock it is. Pure: moments are handed in. A ring never grows.
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from array import array
from collections.abc import Sequence
from typing import Final

from kvedge.resources.usage.guest_history import SERIES, SPANS, GuestHistory, Span

_NOTHING: Final = math.nan
# Name and version; then, for each span, its step, its points, how many series, and its last slot.
_MAGIC: Final = b"kvedge-usage-1\n"
_HEAD: Final = struct.Struct("<IIIq")
_CHECKSUM: Final = struct.Struct("<I")
# A value is told with so many digits.
_DIGITS: Final = 5


class BadRing(Exception):
    """Bytes that are no ring; the text says why."""


class SpanRing:
    """The points of one span. A slot is a time divided by the step; the last one is still being filled."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._last: int | None = None
        self._values = array("f", [_NOTHING]) * (span.points * len(SERIES))
        # Of the last slot: sums, and how many values they are of.
        self._sums = [0.0] * len(SERIES)
        self._counts = [0] * len(SERIES)

    def add(self, moment: float, values: Sequence[float | None]) -> None:
        """Take what was seen at a moment, one value for each of `SERIES`."""
        slot = int(moment // self._span.step)
        if slot != self._last:
            self._move_to(slot)
        at = self._place(slot)
        for number, value in enumerate(values):
            if value is not None:
                self._sums[number] += value
                self._counts[number] += 1
                self._values[at + number] = self._sums[number] / self._counts[number]

    def _move_to(self, slot: int) -> None:
        """Begin a slot: nothing was seen in those between. After a clock that was set back, what it passes is void."""
        last = slot - 1 if self._last is None else self._last
        first, end = (last + 1, slot + 1) if slot > last else (slot, last + 1)
        for void in range(max(first, end - self._span.points), end):
            at = self._place(void)
            for number in range(len(SERIES)):
                self._values[at + number] = _NOTHING
        self._last = slot
        self._sums = [0.0] * len(SERIES)
        self._counts = [0] * len(SERIES)

    def _place(self, slot: int) -> int:
        return slot % self._span.points * len(SERIES)

    def tell(self, moment: float) -> tuple[int, list[list[float | None]]]:
        """When the last point ends, and the points of each series up to that moment, oldest first."""
        slot = int(moment // self._span.step)
        slots = range(slot - self._span.points + 1, slot + 1)
        series = [[self._value(each, number) for each in slots] for number in range(len(SERIES))]
        return (slot + 1) * self._span.step, series

    def _value(self, slot: int, number: int) -> float | None:
        last = self._last
        if last is None or not last - self._span.points < slot <= last:
            return None
        value = self._values[self._place(slot) + number]
        return None if math.isnan(value) else float(f"{value:.{_DIGITS}g}")

    def write(self) -> bytes:
        """The bytes of a file. The slot under way goes on from its mean, as one value."""
        head = _HEAD.pack(self._span.step, self._span.points, len(SERIES), -1 if self._last is None else self._last)
        return head + _little_endian(self._values).tobytes()

    def read(self, data: memoryview) -> memoryview:
        """Take the bytes of a file; what follows them.

        Raises:
            BadRing: when they are of another span, or too few.
        """
        size = len(self._values) * self._values.itemsize
        if len(data) < _HEAD.size + size:
            raise BadRing("it ends too early")
        step, points, series, last = _HEAD.unpack(data[: _HEAD.size])
        if (step, points, series) != (self._span.step, self._span.points, len(SERIES)):
            raise BadRing("it has other figures than this version keeps")
        values = array("f")
        values.frombytes(data[_HEAD.size : _HEAD.size + size])
        self._values = _little_endian(values)
        self._last = last if last >= 0 else None
        if self._last is not None:
            at = self._place(self._last)
            kept = self._values[at : at + len(SERIES)]
            self._sums = [0.0 if math.isnan(value) else value for value in kept]
            self._counts = [0 if math.isnan(value) else 1 for value in kept]
        return data[_HEAD.size + size :]


class UsageRing:
    """All spans of one guest."""

    def __init__(self) -> None:
        self._spans = {name: SpanRing(span) for name, span in SPANS.items()}

    def add(self, moment: float, values: Sequence[float | None]) -> None:
        """Take what was seen at a moment, in seconds of Unix time: one value for each of `SERIES`."""
        for span in self._spans.values():
            span.add(moment, values)

    def tell(self, span: str, moment: float) -> GuestHistory:
        """One of `SPANS`, up to that moment."""
        end, series = self._spans[span].tell(moment)
        return GuestHistory(span=span, step=SPANS[span].step, end=end, series=dict(zip(SERIES, series, strict=True)))

    def write(self) -> bytes:
        """The bytes of a file."""
        body = b"".join(span.write() for span in self._spans.values())
        return _MAGIC + _CHECKSUM.pack(zlib.crc32(body)) + body

    @classmethod
    def read(cls, data: bytes) -> UsageRing:
        """The ring that a file has.

        Raises:
            BadRing: when it is torn, or of another version.
        """
        if not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + _CHECKSUM.size:
            raise BadRing("it does not begin as a file of this version")
        body = memoryview(data)[len(_MAGIC) + _CHECKSUM.size :]
        if _CHECKSUM.unpack_from(data, len(_MAGIC)) != (zlib.crc32(body),):
            raise BadRing("its checksum is wrong")
        ring = cls()
        for span in ring._spans.values():
            body = span.read(body)
        if body:
            raise BadRing("it is longer than a ring")
        return ring


def _little_endian(values: array[float]) -> array[float]:
    """As files have them, or back: a directory may move to a host of another kind."""
    if sys.byteorder == "little":
        return values
    turned = array("f", values)
    turned.byteswap()
    return turned
