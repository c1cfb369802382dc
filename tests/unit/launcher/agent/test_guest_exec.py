"""Programs in the guest: how long they are waited for, and what of an agent's word on them is believed."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kvedge.launcher.agent.guest_exec import LONGEST_OUTPUT, GuestExec, read_status
from kvedge.launcher.agent.guest_freeze import now
from kvedge.launcher.launcher_errors import Unanswered, WrongState

RUNS = {"exited": False}
DONE = {"exited": True, "exitcode": 0}


def coded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


class PlayedAgent:
    """Answers by a list, the last one for ever; a program's number is its place."""

    def __init__(self, *states: Any) -> None:
        self.states = list(states)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, command: str, arguments: dict[str, Any], until: float) -> Any:
        self.asked.append((command, arguments))
        if command == "guest-exec":
            return {"pid": 100 + sum(name == "guest-exec" for name, _ in self.asked)}
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return state

    def started(self) -> int:
        return sum(command == "guest-exec" for command, _ in self.asked)


def run(exec_: GuestExec, *command: str, seconds: float = 5.0, wanted: bool = True) -> Any:
    return exec_.run(command, now() + seconds, lambda: wanted)


def test_a_program_is_started_with_its_words_and_waited_for() -> None:
    agent = PlayedAgent(RUNS, RUNS, {"exited": True, "exitcode": 3, "out-data": coded("so\n"), "err-data": coded("so")})
    reply = run(GuestExec(agent), "/bin/sh", "-c", "exit 3")
    assert (reply.exit_code, reply.output) == (3, "so\nso")
    assert agent.asked[0] == ("guest-exec", {"path": "/bin/sh", "arg": ["-c", "exit 3"], "capture-output": True})
    assert agent.asked[1:] == [("guest-exec-status", {"pid": 101})] * 3


def test_a_program_that_hangs_is_given_up_and_not_started_again_before_it_ends() -> None:
    agent = PlayedAgent(RUNS)
    exec_ = GuestExec(agent)
    with pytest.raises(Unanswered, match="has not ended in time"):
        run(exec_, "sleep", seconds=0.1)
    with pytest.raises(Unanswered, match="of an earlier probe still runs"):
        run(exec_, "sleep")
    assert agent.started() == 1
    agent.states = [DONE]
    assert run(exec_, "sleep").exit_code == 0
    assert agent.started() == 2


def test_another_program_is_not_kept_from_running_by_one_that_hangs() -> None:
    agent = PlayedAgent(RUNS)
    exec_ = GuestExec(agent)
    with pytest.raises(Unanswered):
        run(exec_, "sleep", seconds=0.0)
    agent.states = [DONE]
    assert run(exec_, "true").exit_code == 0


def test_a_program_that_the_agent_has_forgotten_is_started_again() -> None:
    agent = PlayedAgent(RUNS)
    exec_ = GuestExec(agent)
    with pytest.raises(Unanswered):
        run(exec_, "sleep", seconds=0.0)
    agent.states = [WrongState("it knows no such program"), DONE]
    assert run(exec_, "sleep").exit_code == 0


def test_a_new_agent_has_nothing_left_of_the_old_one() -> None:
    agent = PlayedAgent(RUNS)
    exec_ = GuestExec(agent)
    with pytest.raises(Unanswered):
        run(exec_, "sleep", seconds=0.0)
    exec_.forget()
    agent.states = [DONE]
    run(exec_, "sleep")
    assert agent.asked[-2][0] == "guest-exec"


def test_an_agent_that_falls_silent_in_between_is_asked_about_the_program_first() -> None:
    agent = PlayedAgent(Unanswered("nobody answers"))
    exec_ = GuestExec(agent)
    with pytest.raises(Unanswered, match="nobody"):
        run(exec_, "true")
    agent.states = [DONE]
    run(exec_, "true")
    assert [command for command, _ in agent.asked[2:]] == ["guest-exec-status", "guest-exec", "guest-exec-status"]


def test_nobody_waits_for_a_program_that_is_no_longer_wanted() -> None:
    agent = PlayedAgent(RUNS)
    with pytest.raises(Unanswered):
        run(GuestExec(agent), "sleep", seconds=600.0, wanted=False)
    assert len(agent.asked) == 2


def test_many_that_hang_are_not_remembered_for_ever() -> None:
    exec_ = GuestExec(PlayedAgent(RUNS))
    for index in range(50):
        with pytest.raises(Unanswered):
            run(exec_, f"sleep-{index}", seconds=0.0)
    assert len(exec_._left) == 8


@pytest.mark.parametrize(
    ("status", "code", "output"),
    [
        (DONE, 0, ""),
        ({"exited": True, "exitcode": 127}, 127, ""),
        ({"exited": True, "signal": 9}, 137, ""),
        ({"exited": True, "signal": 100_000}, 255, ""),
        ({"exited": True}, 255, ""),
        ({"exited": True, "exitcode": 256}, 255, ""),
        ({"exited": True, "exitcode": -1}, 255, ""),
        ({"exited": True, "exitcode": "0"}, 255, ""),
        ({"exited": True, "exitcode": False}, 255, ""),
        ({"exited": True, "exitcode": 0, "out-data": coded("a\tb\n\x1b[31mred\x00")}, 0, "a\tb\n[31mred"),
        ({"exited": True, "exitcode": 0, "out-data": coded(b"\xff\xfe!")}, 0, "\N{REPLACEMENT CHARACTER}" * 2 + "!"),
        ({"exited": True, "exitcode": 0, "out-data": "%%%"}, 0, ""),
        ({"exited": True, "exitcode": 0, "out-data": 7, "err-data": ["x"]}, 0, ""),
        ({"exited": True, "exitcode": 0, "out-data": "ü"}, 0, ""),
    ],
    ids=str,
)
def test_what_an_agent_says_of_a_program_is_cut_down(status: dict[str, Any], code: int, output: str) -> None:
    reply = read_status(status)
    assert reply is not None
    assert (reply.exit_code, reply.output) == (code, output)


def test_what_a_program_prints_is_bounded() -> None:
    reply = read_status(
        {"exited": True, "exitcode": 0, "out-data": coded("ü" * 100_000), "err-data": coded("e" * 9999)}
    )
    assert reply is not None
    assert LONGEST_OUTPUT - 8 < len(reply.output.encode()) <= LONGEST_OUTPUT


@pytest.mark.parametrize("status", [None, [], "x", {}, {"exited": 1}, {"exited": "yes"}, {"exitcode": 0}], ids=str)
def test_a_status_that_is_none_is_no_success(status: object) -> None:
    with pytest.raises(Unanswered):
        read_status(status)


@pytest.mark.parametrize("answer", [None, {}, {"pid": "1"}, {"pid": True}, {"pid": -1}, {"pid": 1 << 70}], ids=str)
def test_a_program_without_a_number_has_not_been_started(answer: object) -> None:
    with pytest.raises(Unanswered, match="no pid"):
        GuestExec(lambda *_: answer).run(["x"], now() + 1, lambda: True)
