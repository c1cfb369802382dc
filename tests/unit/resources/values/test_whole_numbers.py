"""Whole numbers that came as text, and grace periods that may be waited for."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.values.durations import LONGEST_GRACE_SECONDS, bound_grace
from kvedge.resources.values.whole_numbers import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-7", -7), ("+7", 7), ("007", 7), (str(2**63 - 1), 2**63 - 1)])
def test_a_number_is_read(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-", "²", "٣", " 1", "1_0", "1.0", "1e3", "0x1", str(2**63), "9" * 5000, "1\n"])
def test_what_is_no_number_of_64_bits_is_none(text: str) -> None:
    assert whole_number(text) is None


def test_bounds_are_included() -> None:
    assert [whole_number(text, (1, 3)) for text in "01234"] == [None, 1, 2, 3, None]


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_none(text: str) -> None:
    found = whole_number(text)
    assert found is None or int(text) == found


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_grace_period_can_be_waited_for(seconds: int) -> None:
    assert 0 <= bound_grace(seconds) <= LONGEST_GRACE_SECONDS < threading.TIMEOUT_MAX
