"""When an agent is asked what, for agents that answer, that do not, and that come and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvedge.launcher.agent.agent_schedule import REFUSED_SECONDS, SECONDS, AgentSchedule, Question, Steady

HOUR = 3600.0


def asked(schedule: AgentSchedule, seconds: float, *, answers: bool = True, frozen: bool = False) -> list[Question]:
    """What is asked in that time."""
    found, now = [], 0.0
    while True:
        question, wait = schedule.next(now, frozen=frozen)
        if question is None:
            now += wait
            if now >= seconds:
                return found
            continue
        found.append(question)
        if answers:
            schedule.note_answer(question, now)
        else:
            now += 5.0
            schedule.note_silence(question, now)


def test_an_agent_that_comes_is_asked_everything_at_once() -> None:
    assert set(asked(AgentSchedule(), 1.0)) == set(Question)


def test_each_question_has_its_interval() -> None:
    counts = dict.fromkeys(Question, 0)
    for question in asked(AgentSchedule(), HOUR):
        counts[question] += 1
    for question, seconds in SECONDS.items():
        if question is not Question.INTERFACES:
            assert counts[question] == HOUR / seconds
    assert counts[Question.INTERFACES] == 5 + (HOUR - 47) // 120, "eager at first, then each two minutes"


def test_an_agent_that_never_answers_is_asked_every_two_minutes() -> None:
    found = asked(AgentSchedule(), HOUR, answers=False)
    assert len(found) <= 6 + HOUR / 120
    assert len(set(found)) == len(Question), "it may be one question that it cannot answer"


def test_a_frozen_guest_is_asked_only_what_it_can_answer() -> None:
    assert set(asked(AgentSchedule(), 60.0, frozen=True)) == {Question.INFO, Question.FREEZE_STATUS}


def test_an_answer_ends_the_silence() -> None:
    schedule = AgentSchedule()
    for now in (5.0, 15.0, 40.0):
        schedule.note_silence(Question.INFO, now)
    assert schedule.silences == 3
    assert schedule.next(50.0, frozen=False) == (None, 10.0)
    schedule.note_answer(Question.SYSTEM, 60.0)
    assert schedule.silences == 0


def test_a_guest_that_was_stopped_is_asked_again_at_once() -> None:
    schedule = AgentSchedule()
    schedule.note_silence(Question.INFO, 0.0)
    schedule.resume(1.0)
    assert schedule.next(1.0, frozen=False)[0] is not None


def test_what_has_changed_is_asked_soon() -> None:
    schedule = AgentSchedule()
    for question in Question:
        schedule.note_answer(question, 0.0)
    schedule.hasten(Question.FILESYSTEMS, 1.0)
    assert schedule.next(1.0, frozen=False)[0] is Question.FILESYSTEMS


def test_a_guest_that_changes_what_it_says_for_ever_is_told_a_few_times_a_minute() -> None:
    steady, changes = Steady(-1), set()
    for second in range(600):
        changes.add(steady.settle(second, float(second)))
    assert len(changes) <= 40 + 60 + 1


def test_a_change_is_told_at_once_and_the_last_one_in_the_end() -> None:
    steady = Steady("")
    assert steady.settle("here", 0.0) == "here"
    assert steady.settle("", 0.0) == ""
    for number in range(100):
        steady.settle(str(number), 0.0)
    assert steady.settle("last", 9.0) != "last"
    assert steady.settle("last", 10.1) == "last"


def test_what_a_user_has_asked_for_is_told_however_often_the_guest_changes() -> None:
    steady = Steady("")
    for number in range(100):
        steady.settle(str(number), 0.0)
    assert steady.settle("frozen", 0.0) != "frozen"
    steady.grant()
    assert steady.settle("frozen", 0.0) == "frozen"


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 30)), max_size=100))
def test_however_it_flaps_so_many_changes_are_told(steps: list[tuple[int, float]]) -> None:
    steady, told, now, changes = Steady(0), 0, 0.0, 0
    for value, pause in steps:
        now += pause
        found = steady.settle(value, now)
        changes += found != told
        told = found
        assert changes <= 40 + now / 10 + 1
    assert steady.settle(7, now + 11.0) == 7


def test_an_agent_that_does_not_know_a_question_is_asked_it_seldom() -> None:
    schedule = AgentSchedule()
    for question in Question:
        schedule.note_answer(question, 0.0, refused=True)
    found = [schedule.next(now, frozen=False)[0] for now in (SECONDS[Question.LOAD], REFUSED_SECONDS)]
    assert Question.LOAD not in found[:1]
    for question in set(Question) - {Question.LOAD}:
        schedule.note_answer(question, REFUSED_SECONDS)
    assert schedule.next(REFUSED_SECONDS, frozen=False)[0] is Question.LOAD
