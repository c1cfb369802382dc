"""A guest whose CPUs stood for a while gets the time from its host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kvedge.launcher.agent.agent_line import AgentLine
from kvedge.launcher.agent.agent_state import AgentState
from kvedge.launcher.agent.guest_clock import GuestClock
from kvedge.launcher.launcher_errors import LauncherError, LibvirtFailed, Unanswered
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

NOW = 1_790_000_000_000_000_000


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


def set_clock(guest: PlayedGuest) -> None:
    line = AgentLine(cast("LibvirtSession", guest))
    line.state.follow(connected=True, running=True, now=0.0)
    clock = GuestClock(line, lambda: NOW, pause=0.0)
    clock.set_soon()
    wait_until(lambda: not clock._busy.locked(), "the clock was seen to")


def test_the_guest_is_told_the_hosts_time() -> None:
    guest = PlayedGuest(None)
    set_clock(guest)
    assert guest.told == [("guest-set-time", {"time": NOW})]


@pytest.mark.parametrize(
    ("answers", "tries"),
    [
        ((Unanswered("busy"), None), 2),
        ((Unanswered("busy"),), 6),
        ((LibvirtFailed("asking", 86, 10, "The command guest-set-time has not been found"),), 1),
    ],
)
def test_a_busy_agent_is_asked_again_and_one_that_does_not_set_clocks_is_left(
    answers: tuple[LauncherError | None, ...], tries: int
) -> None:
    guest = PlayedGuest(*answers)
    set_clock(guest)
    assert len(guest.told) == tries


def test_how_long_the_cpus_stood_is_counted_from_when_it_was_seen() -> None:
    state = AgentState()
    assert state.follow(connected=False, running=True, now=5.0).slept == 0.0
    state.follow(connected=True, running=True, now=6.0)
    state.follow(connected=True, running=False, now=10.0)
    state.follow(connected=True, running=False, now=11.0)
    woke = state.follow(connected=True, running=True, now=13.0)
    assert (woke.woke, woke.slept) == (True, 3.0)
    assert state.follow(connected=True, running=True, now=14.0).slept == 0.0
