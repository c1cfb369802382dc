from __future__ import annotations

import threading

import pytest

from kvedge.runtime import background
from kvedge.runtime.background import on_trouble
from kvedge.standalone.agent.rounds import Rounds
from tests.support.waiting import wait_until


def test_it_goes_round_until_it_is_stopped() -> None:
    done: list[str] = []
    rounds = Rounds("test", "counts", 0.01, lambda: done.append(threading.current_thread().name))
    rounds.start()
    wait_until(lambda: len(done) > 2, "some rounds")
    rounds.stop()
    count = len(done)
    assert set(done) == {"test"}
    assert rounds.failure() is None
    assert "test" not in [thread.name for thread in threading.enumerate()]
    assert len(done) == count


@pytest.mark.parametrize("at_once", [True, False])
def test_the_first_round_may_come_before_any_pause(at_once: bool) -> None:
    done = threading.Event()
    rounds = Rounds("test", "counts", 3600, done.set, at_once=at_once)
    rounds.start()
    assert done.wait(5 if at_once else 0.1) is at_once
    rounds.stop()


@pytest.mark.parametrize("at_once", [True, False])
def test_a_round_that_fails_is_told_and_done_again(at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)
    done: list[str] = []

    def fail_once() -> None:
        done.append("round")
        if len(done) == 1:
            raise LookupError("on purpose")

    told: list[tuple[str, str]] = []
    forget = on_trouble(lambda name, what: told.append((name, what)))
    rounds = Rounds("test", "counts", 0.01, fail_once, at_once=at_once)
    assert rounds.failure() is None
    rounds.start()
    wait_until(lambda: len(done) > 2, "more rounds")
    assert rounds.failure() is None
    assert told == [("test", "LookupError: on purpose")]
    rounds.stop()
    forget()
