"""Durations as Go writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.values.durations import DurationError, parse_duration

GOOD = {
    "0": 0.0,
    "0s": 0.0,
    "5m0s": 300.0,
    "1h30m": 5400.0,
    "1.5h": 5400.0,
    ".5s": 0.5,
    "1.s": 1.0,
    "-2s": -2.0,
    "+2s": 2.0,
    "1h1m1s1ms1us1ns": 3661.001001001,
    "3µs": 3e-6,
}


@pytest.mark.parametrize(("text", "seconds"), GOOD.items())
def test_what_go_reads_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "-", "5", "s", "5x", "5 m", "1h 2m", "1e3s", "∞", "300000000000s", "1s" * 40])
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(DurationError, match="time: invalid duration"):
        parse_duration(text)


@given(st.text(max_size=80) | st.from_regex(r"-?([0-9.]{1,30}(ns|ms|s|m|h)){0,5}", fullmatch=True))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        parse_duration(text)
    except DurationError:
        return
