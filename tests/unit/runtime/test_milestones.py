"""The first time of each step, and no more of them than there may be."""

from __future__ import annotations

import pytest

from kvedge.runtime import milestones
from kvedge.runtime.milestones import MOST, Milestones


def test_a_step_keeps_its_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found, now = Milestones(), iter([1_000_000, 2_000_000, 3_000_000])
    monkeypatch.setattr(milestones.time, "time_ns", lambda: next(now))
    assert found.note("serving")
    assert not found.note("serving")
    assert found.note("started")
    assert found.note("container-started", 5)
    assert found.times() == {"serving": 1, "started": 2, "container-started": 5}


def test_a_launcher_that_takes_over_tells_of_the_start_that_was() -> None:
    found = Milestones()
    found.note("launcher-begun")
    found.take_over({"launcher-begun": 7, "started": 9})
    assert not found.note("serving"), "that is a step of its own start"
    assert found.times() == {"launcher-begun": 7, "started": 9}


def test_there_are_never_more_than_there_may_be() -> None:
    found = Milestones()
    assert [found.note(str(number)) for number in range(MOST + 5)].count(True) == MOST
    found.take_over({str(number): number for number in range(MOST + 5)})
    assert len(found.times()) == MOST
