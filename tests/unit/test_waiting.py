# Tests: tests/support/waiting.py
"""How often a test looks whether what it waits for is there, and how long it does."""

from __future__ import annotations

import pytest

from tests.support import waiting
from tests.support.waiting import comes_within, next_pause, wait_until


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


def test_waits_are_stretched_beside_other_tests_until_three_were_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_STRETCH", 3)
    monkeypatch.setattr(waiting, "_in_vain", [])
    looks: list[int] = []
    for stretch in (3, 3, 3, 1, 1):
        assert waiting.patience() == stretch
        with pytest.raises(AssertionError, match=r"a moon: not within 0\.01 s, last seen: 0"):
            wait_until(lambda: 0, "a moon", 0.01, 0.001)
    assert wait_until(lambda: looks.append(1) or len(looks) == 3, "three looks", 0.5, 0.001)


def test_what_does_not_come_and_should_not_is_no_wait_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_in_vain", [])
    assert not comes_within(lambda: 0, 0.01, 0.001)
    assert comes_within(lambda: 1, 0.01)
    assert waiting._in_vain == []
