"""What a domain's state means, what a Sync does, how a launcher goes down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.run.domain_plan import (
    ASK_AGAIN_SECONDS,
    RunMemory,
    ShutdownStep,
    StopStep,
    StopView,
    SyncStep,
    Verdict,
    judge,
    plan_shutdown,
    plan_stop,
    plan_sync,
)
from kvedge.rpc import launcher_pb2 as m


def facts(life: Life, why: Why = Why.OTHER) -> DomainFacts:
    return DomainFacts(uuid="u", life=life, why=why)


BEGUN = RunMemory(begun=True)
KILLED = RunMemory(begun=True, kill_requested=True)

CASES = {
    "nothing was ever asked": (None, RunMemory(), m.DOMAIN_STATE_ABSENT, m.DOMAIN_REASON_UNSPECIFIED),
    "defined only": (facts(Life.SHUTOFF), RunMemory(), m.DOMAIN_STATE_ABSENT, m.DOMAIN_REASON_UNSPECIFIED),
    "a start is under way": (
        facts(Life.SHUTOFF),
        RunMemory(begun=True, starting=True),
        m.DOMAIN_STATE_STARTING,
        m.DOMAIN_REASON_STARTING_UP,
    ),
    "QEMU is there, but its start is not over": (
        facts(Life.PAUSED, Why.STARTING_UP),
        RunMemory(begun=True, starting=True),
        m.DOMAIN_STATE_STARTING,
        m.DOMAIN_REASON_STARTING_UP,
    ),
    "it runs": (facts(Life.RUNNING, Why.BOOTED), BEGUN, m.DOMAIN_STATE_RUNNING, m.DOMAIN_REASON_BOOTED),
    "it runs again": (facts(Life.RUNNING, Why.UNPAUSED), BEGUN, m.DOMAIN_STATE_RUNNING, m.DOMAIN_REASON_UNPAUSED),
    "it was paused": (facts(Life.PAUSED, Why.USER), BEGUN, m.DOMAIN_STATE_PAUSED, m.DOMAIN_REASON_USER),
    "a disk failed": (facts(Life.PAUSED, Why.IO_ERROR), BEGUN, m.DOMAIN_STATE_PAUSED, m.DOMAIN_REASON_IO_ERROR),
    "a panic left QEMU": (facts(Life.PAUSED, Why.PANICKED), BEGUN, m.DOMAIN_STATE_CRASHED, m.DOMAIN_REASON_PANICKED),
    "a migration stopped it for a moment": (
        facts(Life.PAUSED, Why.MIGRATING),
        BEGUN,
        m.DOMAIN_STATE_RUNNING,
        m.DOMAIN_REASON_UNSPECIFIED,
    ),
    "it has left": (facts(Life.SHUTOFF, Why.MIGRATED), BEGUN, m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_MIGRATED),
    "it has left before it was to be killed": (
        facts(Life.SHUTOFF, Why.MIGRATED),
        KILLED,
        m.DOMAIN_STATE_SHUTOFF,
        m.DOMAIN_REASON_MIGRATED,
    ),
    "it was on its way when the launcher before was killed": (
        None,
        RunMemory(begun=True, left=True),
        m.DOMAIN_STATE_SHUTOFF,
        m.DOMAIN_REASON_MIGRATED,
    ),
    "it suspended itself": (facts(Life.SUSPENDED), BEGUN, m.DOMAIN_STATE_RUNNING, m.DOMAIN_REASON_UNSPECIFIED),
    "it goes down": (facts(Life.SHUTTING_DOWN), BEGUN, m.DOMAIN_STATE_SHUTTING_DOWN, m.DOMAIN_REASON_SHUTDOWN),
    "it powered off": (facts(Life.SHUTOFF, Why.SHUTDOWN), BEGUN, m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_SHUTDOWN),
    "it powered off as the kill came": (
        facts(Life.SHUTOFF, Why.SHUTDOWN),
        KILLED,
        m.DOMAIN_STATE_SHUTOFF,
        m.DOMAIN_REASON_SHUTDOWN,
    ),
    "it was killed": (facts(Life.SHUTOFF, Why.DESTROYED), KILLED, m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_DESTROYED),
    "it was started paused, never ran, and was killed": (
        facts(Life.SHUTOFF, Why.DESTROYED),
        RunMemory(begun=True, kill_requested=True, never_ran=True),
        m.DOMAIN_STATE_SHUTOFF,
        m.DOMAIN_REASON_SHUTDOWN,
    ),
    "it was started paused, never ran, and died by itself": (
        facts(Life.SHUTOFF, Why.CRASHED),
        RunMemory(begun=True, never_ran=True),
        m.DOMAIN_STATE_CRASHED,
        m.DOMAIN_REASON_CRASHED,
    ),
    "its kill looked like a crash": (
        facts(Life.SHUTOFF, Why.CRASHED),
        KILLED,
        m.DOMAIN_STATE_SHUTOFF,
        m.DOMAIN_REASON_DESTROYED,
    ),
    "QEMU died": (facts(Life.SHUTOFF, Why.CRASHED), BEGUN, m.DOMAIN_STATE_CRASHED, m.DOMAIN_REASON_CRASHED),
    "QEMU died while nobody looked": (facts(Life.SHUTOFF), BEGUN, m.DOMAIN_STATE_CRASHED, m.DOMAIN_REASON_CRASHED),
    "begun, and nothing is there": (None, BEGUN, m.DOMAIN_STATE_CRASHED, m.DOMAIN_REASON_CRASHED),
    "the kernel panicked": (facts(Life.CRASHED, Why.PANICKED), BEGUN, m.DOMAIN_STATE_CRASHED, m.DOMAIN_REASON_PANICKED),
    "libvirt gave up the start": (
        facts(Life.SHUTOFF, Why.FAILED),
        BEGUN,
        m.DOMAIN_STATE_SHUTOFF,
        m.DOMAIN_REASON_FAILED,
    ),
    "it did not start": (
        facts(Life.SHUTOFF),
        RunMemory(begun=True, failure="no tap"),
        m.DOMAIN_STATE_SHUTOFF,
        m.DOMAIN_REASON_FAILED,
    ),
    "it was killed before the start": (
        None,
        RunMemory(kill_requested=True),
        m.DOMAIN_STATE_SHUTOFF,
        m.DOMAIN_REASON_DESTROYED,
    ),
}


@pytest.mark.parametrize(("seen", "memory", "state", "reason"), CASES.values(), ids=CASES)
def test_a_state_has_one_meaning(seen: DomainFacts | None, memory: RunMemory, state: int, reason: int) -> None:
    verdict = judge(seen, memory)
    assert (verdict.state, verdict.reason) == (state, reason)


@pytest.mark.parametrize(
    ("seen", "memory", "step"),
    [
        pytest.param(facts(Life.RUNNING, Why.BOOTED), BEGUN, ShutdownStep.ASK, id="it runs"),
        pytest.param(facts(Life.PAUSED, Why.USER), BEGUN, ShutdownStep.RESUME, id="it was paused"),
        pytest.param(facts(Life.PAUSED, Why.IO_ERROR), BEGUN, ShutdownStep.RESUME, id="its disk may have room again"),
        pytest.param(
            facts(Life.PAUSED, Why.USER), RunMemory(begun=True, never_ran=True), ShutdownStep.KILL, id="it never ran"
        ),
        pytest.param(
            facts(Life.RUNNING, Why.UNPAUSED), RunMemory(begun=True, never_ran=True), ShutdownStep.ASK, id="it does now"
        ),
    ],
)
def test_a_guest_is_told_to_go_so_that_it_hears_it(seen: DomainFacts, memory: RunMemory, step: ShutdownStep) -> None:
    assert plan_shutdown(seen, memory) is step


def test_the_cause_of_a_failed_start_is_told() -> None:
    assert judge(None, RunMemory(begun=True, failure="no tap")).message == "no tap"


memories = st.builds(
    RunMemory, begun=st.booleans(), starting=st.just(False), failure=st.just(""), kill_requested=st.booleans()
)
looks = st.none() | st.builds(facts, st.sampled_from(Life), st.sampled_from(Why))


@given(looks, memories)
def test_what_was_begun_once_is_never_started_again(seen: DomainFacts | None, memory: RunMemory) -> None:
    step = plan_sync(judge(seen, memory))
    if memory.begun or memory.kill_requested or (seen is not None and seen.is_active):
        assert step is not SyncStep.START
    else:
        assert step is SyncStep.START


@given(looks, memories)
def test_a_running_qemu_is_never_taken_for_ended_unless_it_panicked(
    seen: DomainFacts | None, memory: RunMemory
) -> None:
    if seen is not None and seen.is_active and seen.why is not Why.PANICKED:
        assert not judge(seen, memory).has_ended


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_SHUTDOWN, 0),
        (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_DESTROYED, 0),
        (m.DOMAIN_STATE_ABSENT, m.DOMAIN_REASON_UNSPECIFIED, 0),
        (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_FAILED, 1),
        (m.DOMAIN_STATE_CRASHED, m.DOMAIN_REASON_CRASHED, 1),
        (m.DOMAIN_STATE_CRASHED, m.DOMAIN_REASON_PANICKED, 1),
    ],
)
def test_the_exit_code_tells_failures_apart(state: m.DomainState, reason: m.DomainReason, code: int) -> None:
    assert Verdict(state, reason).exit_code == code


RUNNING = Verdict(m.DOMAIN_STATE_RUNNING, m.DOMAIN_REASON_BOOTED)


def test_going_down_asks_first() -> None:
    assert plan_stop(RUNNING, StopView(0.0, None, 30.0)) == (StopStep.ASK, ASK_AGAIN_SECONDS)


def test_a_guest_that_does_not_listen_is_asked_again_and_then_ended() -> None:
    assert plan_stop(RUNNING, StopView(2.0, 2.0, 30.0)) == (StopStep.WAIT, 3.0)
    assert plan_stop(RUNNING, StopView(6.0, 5.0, 30.0))[0] is StopStep.ASK
    assert plan_stop(RUNNING, StopView(30.0, 1.0, 30.0))[0] is StopStep.KILL


def test_without_grace_the_guest_is_ended_at_once() -> None:
    assert plan_stop(RUNNING, StopView(0.0, None, 0.0))[0] is StopStep.KILL


def test_a_guest_that_only_starts_is_not_asked_yet() -> None:
    starting = Verdict(m.DOMAIN_STATE_STARTING, m.DOMAIN_REASON_STARTING_UP)
    assert plan_stop(starting, StopView(1.0, None, 30.0))[0] is StopStep.WAIT


@given(
    st.sampled_from(list(m.DomainState.values())),
    st.floats(0, 100),
    st.none() | st.floats(0, 100),
    st.floats(0, 60),
)
def test_going_down_always_comes_to_an_end(
    state: m.DomainState, elapsed: float, since: float | None, grace: float
) -> None:
    step, pause = plan_stop(Verdict(state, m.DOMAIN_REASON_UNSPECIFIED), StopView(elapsed, since, grace))
    if step is StopStep.DONE:
        assert pause == 0
    else:
        assert 0 < pause <= ASK_AGAIN_SECONDS
    if step in (StopStep.ASK, StopStep.WAIT):
        # Whatever is done, the next look is not later than the end of the grace period.
        assert elapsed + pause <= grace + 0.051
