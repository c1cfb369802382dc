"""What follows from what an agent does and does not say; times are those of no clock."""

from __future__ import annotations

from dataclasses import replace  # noqa: TID251 - of AgentFacts

import pytest

from kvedge.launcher.agent.agent_schedule import Question
from kvedge.launcher.agent.agent_state import AgentState, Answer, Arrival, Task
from kvedge.launcher.launcher_errors import WrongState

ALL = len(Question)


@pytest.fixture
def state() -> AgentState:
    found = AgentState()
    found.follow(connected=True, running=True, now=0.0)
    return found


def answer_next(state: AgentState, now: float, *, is_silent: bool = False) -> bool:
    """Answer the question that is due; whether that is to be told."""
    task, _ = state.next_task(now, 1e9, promised=False)
    assert task is not None
    assert task.question is not None
    facts = replace(state.facts, hostname="web")
    return state.conclude(Answer(task.question, task.visit, facts, is_silent=is_silent), now, promised=False).tell


def test_who_comes_goes_and_wakes_is_told_apart(state: AgentState) -> None:
    assert state.follow(connected=True, running=False, now=1.0) == Arrival(came=False, is_another=False, woke=False)
    assert state.follow(connected=True, running=True, now=2.0) == Arrival(
        came=False, is_another=False, woke=True, slept=1.0
    )
    assert state.follow(connected=False, running=True, now=3.0) == Arrival(came=False, is_another=True, woke=False)
    assert state.follow(connected=True, running=True, now=4.0) == Arrival(came=True, is_another=True, woke=False)
    assert (state.visit, state.since) == (3, 4.0)


def test_the_first_round_is_told_once_at_its_end(state: AgentState) -> None:
    told = [answer_next(state, 0.0) for _ in range(ALL)]
    assert told == [False] * (ALL - 1) + [True]


def test_what_is_not_new_is_not_told(state: AgentState) -> None:
    for _ in range(ALL):
        answer_next(state, 0.0)
    assert not answer_next(state, 1000.0)


def test_a_silence_is_a_trouble_when_it_lasts(state: AgentState) -> None:
    troubles = []
    for moment in (0.0, 1000.0, 2000.0, 3000.0):
        task, _ = state.next_task(moment, 1e9, promised=False)
        assert task is not None
        assert task.question is not None
        silence = Answer(task.question, task.visit, state.facts, is_silent=True)
        troubles.append(state.conclude(silence, moment, promised=False).trouble)
    assert troubles == ["", "", "it does not answer", ""]
    assert not state.takes_orders(promised=False)


def test_to_thaw_comes_before_any_question(state: AgentState) -> None:
    assert state.next_task(0.0, 0.0, promised=True) == (Task(None, state.visit), 0.0)


def test_nothing_is_done_while_somebody_freezes_or_the_guest_stands_still(state: AgentState) -> None:
    state.is_requested = True
    assert state.next_task(0.0, 0.0, promised=True) == (None, None)
    state.is_requested = False
    state.follow(connected=True, running=False, now=1.0)
    assert state.next_task(1.0, 0.0, promised=True) == (None, None)


def test_the_pause_ends_when_the_guest_is_to_thaw(state: AgentState) -> None:
    for _ in range(ALL):
        answer_next(state, 0.0)
    assert state.next_task(0.0, 0.5, promised=True) == (None, 0.5)


def test_a_frozen_guest_takes_no_orders(state: AgentState) -> None:
    assert state.takes_orders(promised=False)
    assert not state.takes_orders(promised=True)
    state.note_freeze("frozen", 0.0)
    assert not state.takes_orders(promised=False)


@pytest.mark.parametrize(
    ("connected", "running", "words"), [(False, True, "not connected"), (True, False, "paused")], ids=str
)
def test_it_says_why_nothing_can_be_asked(state: AgentState, connected: bool, running: bool, words: str) -> None:
    state.follow(connected=connected, running=running, now=1.0)
    with pytest.raises(WrongState, match=words):
        state.check()
