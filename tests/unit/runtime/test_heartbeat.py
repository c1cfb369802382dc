"""Which silence of a loop is a failure."""

from __future__ import annotations

import asyncio
import time

import pytest

from kvedge.runtime.heartbeat import LOOP_SECONDS, Heartbeat, LoopPulse


class Moments:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def moments() -> Moments:
    return Moments()


@pytest.fixture
def heartbeat(moments: Moments) -> Heartbeat:
    return Heartbeat("the loop", LOOP_SECONDS, moments)


def asked_for(heartbeat: Heartbeat, moments: Moments, seconds: float) -> str | None:
    """The answer after so many seconds, asked each second as the runner of services does."""
    for _ in range(int(seconds)):
        moments.now += 1.0
        heartbeat.failure()
    return heartbeat.failure()


def test_a_loop_that_beats_is_well(heartbeat: Heartbeat, moments: Moments) -> None:
    for _ in range(100):
        heartbeat.beat()
        assert asked_for(heartbeat, moments, 5) is None


def test_a_loop_without_a_beat_for_longer_than_its_limit_is_named(heartbeat: Heartbeat, moments: Moments) -> None:
    heartbeat.beat()
    assert asked_for(heartbeat, moments, LOOP_SECONDS) is None
    assert asked_for(heartbeat, moments, 1) == "the loop has been stuck for 21 s"
    heartbeat.beat()
    assert heartbeat.failure() is None


def test_a_loop_that_never_began_or_rests_is_not_missed(heartbeat: Heartbeat, moments: Moments) -> None:
    assert asked_for(heartbeat, moments, 100) is None
    heartbeat.beat()
    heartbeat.rest()
    assert asked_for(heartbeat, moments, 100) is None


def test_after_a_time_in_which_nobody_asked_the_loop_has_its_full_time_again(
    heartbeat: Heartbeat, moments: Moments
) -> None:
    heartbeat.beat()
    asked_for(heartbeat, moments, 2)
    moments.now += 3600.0
    assert heartbeat.failure() is None, "the whole process stood still"
    assert asked_for(heartbeat, moments, LOOP_SECONDS) is None
    assert asked_for(heartbeat, moments, 1) is not None, "and the loop did not begin again"


def test_an_event_loop_beats_from_inside_and_not_while_something_holds_it(moments: Moments) -> None:
    async def beats() -> list[float]:
        heartbeat = Heartbeat("the loop", LOOP_SECONDS, moments)
        stamps: list[float] = []
        beat = heartbeat.beat
        heartbeat.beat = lambda: (beat(), stamps.append(asyncio.get_running_loop().time()))[0]  # type: ignore[method-assign]
        pulse = LoopPulse(heartbeat, asyncio.get_running_loop())
        pulse.BEAT_SECONDS = 0.01
        pulse.start()
        while len(stamps) < 3:
            await asyncio.sleep(0.01)
        before = len(stamps)
        # Nothing is awaited: the loop is held.
        time.sleep(0.2)
        moments.now += 3.0
        assert heartbeat.silent_seconds() == 3.0
        assert len(stamps) == before
        while len(stamps) == before:
            await asyncio.sleep(0.01)
        assert heartbeat.silent_seconds() == 0.0
        pulse.stop()
        assert heartbeat.silent_seconds() == 0.0
        return stamps

    assert len(asyncio.run(beats())) >= 4
