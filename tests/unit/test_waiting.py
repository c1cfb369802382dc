# Tests: tests/support/waiting.py
"""How often a test looks whether what it waits for is there."""

from __future__ import annotations

import pytest

from tests.support.waiting import next_pause


@pytest.mark.parametrize(
    ("waited", "spent", "pause"),
    [
        (0.0, 0.0, 0.05),
        (1.0, 0.01, 0.1),
        (60.0, 0.01, 0.25),
        (1.0, 0.2, 0.4),
        (60.0, 7.0, 1.0),
    ],
    ids=["at first", "after a while", "late", "after a program", "after much work"],
)
def test_a_wait_looks_less_often_the_longer_it_is_and_the_more_a_look_costs(
    waited: float, spent: float, pause: float
) -> None:
    assert next_pause(waited, spent) == pytest.approx(pause)
