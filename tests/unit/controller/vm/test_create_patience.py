"""How long the loops leave an object alone whose creation was refused."""

from __future__ import annotations

import pytest

from kvedge.controller.vm.create_patience import CreatePatience


class FakeTime:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


def test_nothing_is_waited_for_before_a_refusal(time):
    assert CreatePatience(time).count_seconds_left("uid") == 0


def test_a_refusal_is_waited_for_and_then_over(time):
    patience = CreatePatience(time)
    wait = patience.note_refusal("uid")
    assert wait >= 1
    assert patience.count_seconds_left("uid") == pytest.approx(wait)
    time.now += wait + 0.001
    assert patience.count_seconds_left("uid") == 0


def test_waits_grow_to_a_minute_at_most(time):
    patience = CreatePatience(time)
    waits = [patience.note_refusal("uid") for _ in range(12)]
    assert waits[0] < 3
    assert waits[-1] == 60
    assert max(waits) == 60


def test_a_changed_spec_is_tried_at_once_and_counts_anew(time):
    patience = CreatePatience(time)
    for _ in range(8):
        patience.note_refusal("uid", generation=1)
    assert patience.count_seconds_left("uid", generation=2) == 0
    assert patience.note_refusal("uid", generation=2) < 3


def test_a_success_is_a_new_start(time):
    patience = CreatePatience(time)
    patience.note_refusal("uid")
    patience.forget("uid")
    assert patience.count_seconds_left("uid") == 0
