# Tests: kvedge/handler/usage/usage_ring.py, kvedge/resources/usage/guest_history.py
"""A ring has the mean of each step, gaps where nothing was seen, and one size; its file is read back or refused."""

from __future__ import annotations

import math
import struct
import sys
import zlib
from array import array

import pytest

from kvedge.handler.usage import usage_ring
from kvedge.handler.usage.usage_ring import BadRing, UsageRing
from kvedge.resources.usage.guest_history import CPUS, READ, SERIES, SPANS

# A whole hour.
START = 1_800_000_000 - 1_800_000_000 % 3600
NOTHING = [None] * len(SERIES)


def point(cpus: float | None, **others: float) -> list[float | None]:
    """What one look found."""
    found = {CPUS: cpus, **others}
    return [found.get(name) for name in SERIES]


def cpus(ring: UsageRing, span: str, moment: float) -> list[float | None]:
    return ring.tell(span, moment).series[CPUS]


def test_the_last_point_is_the_latest_and_what_was_not_seen_is_a_gap() -> None:
    ring = UsageRing()
    ring.add(START, point(0.5))
    ring.add(START + 30, point(1.5))
    assert cpus(ring, "hour", START + 31)[-5:] == [None, 0.5, None, None, 1.5]
    found = ring.tell("hour", START + 31)
    assert (found.span, found.step, found.end) == ("hour", 10, START + 40)
    assert {len(series) for series in found.series.values()} == {360}
    assert found.series[READ] == [None] * 360


def test_a_longer_step_has_the_mean_of_what_was_seen_in_it() -> None:
    ring = UsageRing()
    for second in range(0, 600, 10):
        ring.add(START + second, point(1.0 if second < 300 else second / 300))
    day = cpus(ring, "day", START + 599)
    assert day[-2:] == [1.0, pytest.approx(sum(second / 300 for second in range(300, 600, 10)) / 30, rel=1e-4)]
    assert cpus(ring, "month", START + 599)[-1] == pytest.approx((30 + 30 * day[-1]) / 60, rel=1e-4)


def test_a_value_that_is_not_known_lowers_no_mean() -> None:
    ring = UsageRing()
    ring.add(START, point(2.0))
    ring.add(START + 1, point(None, **{READ: 100.0}))
    found = ring.tell("hour", START + 1).series
    assert (found[CPUS][-1], found[READ][-1]) == (2.0, 100.0)


def test_what_is_older_than_a_span_is_gone() -> None:
    ring = UsageRing()
    ring.add(START, point(1.0))
    ring.add(START + 3600, point(2.0))
    assert [value for value in cpus(ring, "hour", START + 3600) if value is not None] == [2.0]
    assert cpus(ring, "day", START + 3600)[-13:] == [1.0, *[None] * 11, 2.0]


def test_time_that_has_passed_since_the_last_look_is_a_gap() -> None:
    ring = UsageRing()
    ring.add(START, point(1.0))
    assert cpus(ring, "hour", START + 20)[-3:] == [1.0, None, None]
    assert set(cpus(ring, "hour", START + 10_000)) == {None}


def test_a_clock_that_was_set_back_voids_what_lies_after_it() -> None:
    ring = UsageRing()
    for second in range(0, 100, 10):
        ring.add(START + second, point(1.0))
    ring.add(START + 40, point(7.0))
    assert cpus(ring, "hour", START + 90)[-10:] == [*[1.0] * 4, 7.0, *[None] * 5]


@pytest.mark.parametrize("years", [-50, 50], ids=["back by years", "forward by years"])
def test_a_clock_that_leaps_costs_no_more_than_the_ring(years: int) -> None:
    ring = UsageRing()
    ring.add(START, point(1.0))
    there = START + years * 365 * 86400
    ring.add(there, point(2.0))
    for span in SPANS:
        assert [value for value in cpus(ring, span, there) if value is not None] == [2.0]


def test_a_file_has_the_whole_ring_and_one_size() -> None:
    ring, empty = UsageRing(), UsageRing()
    for second in range(0, 7200, 10):
        ring.add(START + second, point(second / 1000, **{READ: 3.3e9}))
    data = ring.write()
    assert len(data) == len(empty.write()) < 40_000
    again = UsageRing.read(data)
    for span in SPANS:
        assert again.tell(span, START + 7200) == ring.tell(span, START + 7200)
    assert UsageRing.read(empty.write()).tell("day", START) == empty.tell("day", START)


def test_a_ring_that_was_read_goes_on() -> None:
    ring = UsageRing()
    ring.add(START, point(1.0))
    again = UsageRing.read(ring.write())
    again.add(START + 10, point(3.0))
    assert cpus(again, "hour", START + 10)[-2:] == [1.0, 3.0]
    assert cpus(again, "month", START + 10)[-1] == 2.0


def test_a_file_is_the_same_on_a_host_of_the_other_byte_order(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = UsageRing()
    ring.add(START, point(1.5))
    native = array("f", [1.5])
    monkeypatch.setattr(usage_ring.sys, "byteorder", "big" if sys.byteorder == "little" else "little")
    other = usage_ring._little_endian(native).tobytes()
    monkeypatch.undo()
    assert other == native.tobytes()[::-1]
    assert struct.pack("<f", 1.5) in ring.write()


def _damages() -> dict[str, bytes]:
    ring = UsageRing()
    ring.add(START, point(1.0))
    data = ring.write()
    head = data[: data.index(b"\n") + 1]
    body = data[len(head) + 4 :]
    wider = body.replace((360).to_bytes(4, "little"), (361).to_bytes(4, "little"), 1)

    def signed(body: bytes) -> bytes:
        return head + zlib.crc32(body).to_bytes(4, "little") + body

    return {
        "empty": b"",
        "zeros": bytes(len(data)),
        "of another version": data.replace(b"-1\n", b"-9\n", 1),
        "only its head": head,
        "torn": data[: len(data) // 2],
        "one bit": data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
        "of another span": signed(wider),
        "longer": signed(body + b"x"),
        "signed and short": signed(body[:-8]),
    }


@pytest.mark.parametrize("damage", _damages())
def test_a_damaged_file_is_refused(damage: str) -> None:
    with pytest.raises(BadRing):
        UsageRing.read(_damages()[damage])


def test_no_value_that_was_never_seen_is_told() -> None:
    told = UsageRing().tell("hour", START)
    assert all(value is None for series in told.series.values() for value in series)
    ring = UsageRing()
    ring.add(START, NOTHING)
    assert not any(isinstance(value, float) and math.isnan(value) for value in cpus(ring, "hour", START))
