"""A guest that has missed time is told its host's, once for each time, and nothing waits for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

import pytest

from kvedge.launcher.agent.agent_line import AgentLine
from kvedge.launcher.agent.agent_state import AgentState, Arrival
from kvedge.launcher.agent.guest_agent_message import AgentFacts
from kvedge.launcher.agent.guest_clock import GuestClock
from kvedge.launcher.launcher_errors import LauncherError, LibvirtFailed, Unanswered
from kvedge.rpc.launcher_pb2 import AgentCommand
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

NOW = 1_790_000_000_000_000_000
TOLD = ("guest-set-time", {"time": NOW})
NOTHING_NEW = Arrival(came=False, is_another=False, woke=False)
WOKE = NOTHING_NEW._replace(woke=True)
UNKNOWN = LibvirtFailed("asking", 86, 10, "The command guest-set-time has not been found")


class PlayedGuest:
    """An agent that answers as it is told, the last answer for ever."""

    def __init__(self, *answers: LauncherError | None) -> None:
        self.answers = list(answers)
        self.told: list[tuple[str, Any]] = []

    def ask_agent(self, command: str, seconds: int, arguments: dict[str, Any]) -> str:
        self.told.append((command, arguments))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        return '{"return": {}}'


class Clock(GuestClock):
    """The clock of a guest that has this agent, on a host that sleeps as the test says."""

    def __init__(self, guest: PlayedGuest) -> None:
        self.slept = 100.0
        self.line = AgentLine(cast("LibvirtSession", guest))
        self.line.state.follow(connected=True, running=True, now=0.0)
        super().__init__(self.line, lambda: NOW, lambda: self.slept, pause=0.0)

    def look(self, arrival: Arrival = NOTHING_NEW, *, can_answer: bool = True) -> None:
        self.follow(arrival, can_answer=can_answer)
        wait_until(lambda: not self._busy.locked(), "the clock was seen to")


@pytest.mark.parametrize("seconds", [0.5, 5.0])
def test_a_guest_that_stood_for_a_while_is_told_the_hosts_time_once(seconds: float) -> None:
    guest = PlayedGuest(None)
    clock = Clock(guest)
    clock.look(WOKE._replace(slept=seconds))
    clock.look()
    assert guest.told == [TOLD] * (seconds > 1)


def test_a_guest_whose_host_slept_is_told_the_time_once() -> None:
    guest = PlayedGuest(None)
    clock = Clock(guest)
    clock.slept += 3600.0
    clock.look()
    clock.look()
    assert guest.told == [TOLD]


def test_a_guest_that_was_started_while_its_host_slept_has_the_time_already() -> None:
    guest = PlayedGuest(None)
    clock = Clock(guest)
    clock.slept += 3600.0
    clock.look(Arrival(came=True, is_another=True, woke=False))
    assert guest.told == []


def test_a_guest_that_came_from_elsewhere_is_told_the_time_once_its_agent_can_answer() -> None:
    guest, told = PlayedGuest(None), list[int]()
    clock = Clock(guest)
    clock.owe(lambda: told.append(1))
    clock.look(can_answer=False)
    assert guest.told == []
    clock.look(Arrival(came=True, is_another=True, woke=False))
    clock.look()
    assert (guest.told, told) == ([TOLD], [1])


def test_a_guest_that_is_paused_meanwhile_is_told_later() -> None:
    guest, told = PlayedGuest(None), list[int]()
    clock = Clock(guest)
    clock.owe(lambda: told.append(1))
    clock.line.state.follow(connected=True, running=False, now=1.0)
    clock.look()
    assert (guest.told, told) == ([], [])
    clock.line.state.follow(connected=True, running=True, now=1.5)
    clock.look()
    assert (guest.told, told) == ([TOLD], [1])


@pytest.mark.parametrize(
    ("answers", "tries"),
    [
        ((Unanswered("busy"), None), 2),
        ((Unanswered("busy"),), 6),
        ((UNKNOWN,), 1),
    ],
    ids=["once busy", "always busy", "an unknown command"],
)
def test_a_busy_agent_is_asked_again_and_one_that_does_not_set_clocks_is_left(
    answers: tuple[LauncherError | None, ...], tries: int
) -> None:
    guest, told = PlayedGuest(*answers), list[int]()
    clock = Clock(guest)
    clock.owe(lambda: told.append(1))
    clock.look()
    clock.look()
    assert (len(guest.told), told) == (tries, [1])


@pytest.mark.parametrize(
    ("commands", "lines"),
    [
        (("guest-ping",), []),
        (("guest-ping", "guest-set-time"), ["the guest's clock is not set"]),
    ],
    ids=["an agent that does not know how", "one that may not"],
)
def test_an_agent_that_does_not_know_how_is_not_worth_a_line(
    commands: tuple[str, ...], lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock(PlayedGuest(UNKNOWN))
    clock.line.state.facts = AgentFacts(commands=tuple(AgentCommand(name=name, enabled=True) for name in commands))
    clock.look(WOKE._replace(slept=5.0))
    assert [record.message for record in caplog.records] == lines


def test_how_long_the_cpus_stood_is_counted_from_when_it_was_seen() -> None:
    state = AgentState()
    assert state.follow(connected=False, running=True, now=5.0).slept == 0.0
    state.follow(connected=True, running=True, now=6.0)
    state.follow(connected=True, running=False, now=10.0)
    state.follow(connected=True, running=False, now=11.0)
    woke = state.follow(connected=True, running=True, now=13.0)
    assert (woke.woke, woke.slept) == (True, 3.0)
    assert state.follow(connected=True, running=True, now=14.0).slept == 0.0
