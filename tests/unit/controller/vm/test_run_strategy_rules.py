"""The table of run strategies: what each does when it finds a VMI in a state, and requests of users."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kvedge.controller.vm.run_strategy_rules import RunState, decide_run, open_requests
from kvedge.resources.types.vm import StartFailure, StateChangeRequest
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, VMI_UID, a_vmi, asked

START = asked("Start")
STOP = asked("Stop", VMI_UID)


def verdict_on(
    strategy: str,
    vmi: VirtualMachineInstance | None,
    requests: tuple[StateChangeRequest, ...] = (),
    observed: str | None = None,
    failure: StartFailure | None = None,
) -> str:
    before = strategy if observed is None else observed
    open_ = open_requests(requests, vmi)
    return decide_run(RunState(strategy, before, open_, failure, vmi, NOW)).verdict


TABLE = [
    # strategy, VMI phase (None: no VMI), requests, verdict
    ("Always", None, (), "start"),
    ("Always", "", (), "nothing"),
    ("Always", "Pending", (), "nothing"),
    ("Always", "Running", (), "nothing"),
    ("Always", "Running", (STOP,), "stop"),
    ("Always", "Running", (STOP, START), "stop"),
    ("Always", "Succeeded", (), "stop"),
    ("Always", "Failed", (), "stop"),
    ("RerunOnFailure", None, (), "nothing"),
    ("RerunOnFailure", None, (START,), "start"),
    ("RerunOnFailure", "Running", (), "nothing"),
    ("RerunOnFailure", "Running", (STOP,), "stop"),
    ("RerunOnFailure", "Succeeded", (), "stop"),
    ("RerunOnFailure", "Failed", (), "stop"),
    ("Manual", None, (), "nothing"),
    ("Manual", None, (START,), "start"),
    ("Manual", "Running", (), "nothing"),
    ("Manual", "Running", (START,), "nothing"),
    ("Manual", "Running", (STOP,), "stop"),
    ("Manual", "Succeeded", (), "nothing"),
    ("Manual", "Failed", (), "nothing"),
    ("Manual", "Succeeded", (STOP, START), "stop"),
    ("Halted", None, (), "nothing"),
    ("Halted", None, (asked("Start", paused="true"),), "become-always"),
    ("Halted", "Running", (), "stop"),
    ("Halted", "Failed", (), "stop"),
    ("Once", None, (), "start"),
    ("Once", "Running", (), "nothing"),
    ("Once", "Succeeded", (), "nothing"),
    ("Once", "Failed", (), "nothing"),
    ("WaitAsReceiver", None, (), "start"),
    ("WaitAsReceiver", "WaitingForSync", (), "nothing"),
    ("WaitAsReceiver", "Running", (), "nothing"),
    ("WaitAsReceiver", "Failed", (), "stop"),
    ("Unheard", "Running", (), "nothing"),
]


@pytest.mark.parametrize(
    ("strategy", "phase", "requests", "verdict"),
    TABLE,
    ids=[f"{s}-{p if p is not None else 'none'}-{'+'.join(r.action for r in q) or 'unasked'}" for s, p, q, _ in TABLE],
)
def test_a_run_strategy_decides_as_kubevirt_does(strategy, phase, requests, verdict):
    assert verdict_on(strategy, None if phase is None else a_vmi(phase), requests) == verdict


def test_rerun_on_failure_starts_once_when_it_was_just_switched_to():
    assert verdict_on("RerunOnFailure", None, observed="Halted") == "start"
    assert verdict_on("RerunOnFailure", None, observed="") == "start"


def test_rerun_on_failure_asks_for_a_start_before_a_crashed_run_is_deleted():
    state = RunState("RerunOnFailure", "RerunOnFailure", (), None, a_vmi("Failed"), NOW)
    assert decide_run(state).ask_to_start


def test_rerun_on_failure_asks_for_no_start_when_the_run_was_deleted_by_a_user():
    state = RunState("RerunOnFailure", "RerunOnFailure", (), None, a_vmi("Failed", deleting=True), NOW)
    assert decide_run(state).verdict == "stop"
    assert not decide_run(state).ask_to_start


def test_a_crash_while_a_stop_is_asked_for_is_not_followed_by_a_start():
    state = RunState("RerunOnFailure", "RerunOnFailure", (STOP,), None, a_vmi("Failed"), NOW)
    assert not decide_run(state).ask_to_start


@pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure", "Once"])
def test_a_start_waits_until_the_back_off_is_over(strategy):
    failure = StartFailure(consecutive_fail_count=2, retry_after_timestamp=rfc3339(NOW + timedelta(seconds=40)))
    state = RunState(strategy, "", (), failure, None, NOW)
    assert decide_run(state).verdict == "wait"
    assert decide_run(state).wait_seconds == 40
    later = RunState(strategy, "", (), failure, None, NOW + timedelta(seconds=41))
    assert decide_run(later).verdict == "start"


def test_a_start_that_was_asked_for_paused_is_paused():
    state = RunState("Manual", "Manual", (asked("Start", paused="true"),), None, None, NOW)
    assert decide_run(state).paused


REQUESTS = [
    ((STOP,), None, ()),
    ((STOP, START), None, (START,)),
    ((STOP, START), "Running", (STOP, START)),
    ((asked("Stop", "another-uid"),), "Running", ()),
    ((asked("Stop"),), "Running", ()),
    ((START,), "Running", ()),
    ((START,), "Pending", ()),
    ((START,), "Succeeded", (START,)),
    ((START,), None, (START,)),
]


@pytest.mark.parametrize(("requests", "phase", "left"), REQUESTS)
def test_requests_that_are_met_are_forgotten(requests, phase, left):
    assert open_requests(requests, None if phase is None else a_vmi(phase)) == left


def test_a_start_is_not_met_by_a_vmi_that_is_being_deleted():
    assert open_requests((START,), a_vmi("Running", deleting=True)) == (START,)
