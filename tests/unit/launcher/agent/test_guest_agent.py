"""The conversation with an agent: who waits for whom, and what becomes of a freeze that fails.

The agent is played, as a real one cannot be made to fail at the wrong moment; tests/machine has the real one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kvedge.launcher.agent import agent_answers, agent_line, agent_orders
from kvedge.launcher.agent.guest_agent import GuestAgent
from kvedge.launcher.launcher_errors import LauncherError, LibvirtFailed, Unanswered, Unreadable, WrongState
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.run.run_record import RunRecord
from kvedge.rpc.launcher_pb2 import DomainStatus
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

ANSWERS: dict[str, Any] = {
    "guest-info": {"version": "7.2", "supported_commands": []},
    "guest-get-osinfo": {"id": "debian"},
    "guest-get-host-name": {"host-name": "web"},
    "guest-get-timezone": {"zone": "UTC", "offset": 0},
    "guest-network-get-interfaces": [],
    "guest-get-fsinfo": [{"name": "vda1", "mountpoint": "/", "type": "ext4", "used-bytes": 3, "total-bytes": 10}],
    "guest-get-users": [{"user": "root"}],
    "guest-get-load": {"load1m": 0.25, "load5m": 1.5, "load15m": 2},
    "guest-ping": {},
    "guest-exec": {"pid": 7},
}


class PlayedSession:
    """libvirt's side of an agent that does as it is told; more than one question at a time is a defect of ours."""

    def __init__(self) -> None:
        self.frozen = False
        self.silent = False
        self.failing: dict[str, LauncherError] = {}
        self.count = 2
        self.asked: list[str] = []
        self.ended: dict[str, Any] = {"exited": True, "exitcode": 0}
        self.most_at_once = 0
        self.held = threading.Event()
        self.held.set()
        self._talking = threading.Semaphore(1)

    def ask_agent(self, command: str, seconds: int, arguments: dict[str, Any] | None = None) -> str:
        with self._alone():
            self.asked.append(command)
            self._check(command)
            if command == "guest-exec-status":
                return json.dumps({"return": self.ended})
            status = "frozen" if self.frozen else "thawed"
            return json.dumps({"return": status if command == "guest-fsfreeze-status" else ANSWERS[command]})

    def freeze(self, seconds: int) -> int:
        with self._alone():
            # Also one that says no may have done it.
            self.frozen = self.count > 0
            self._check("freeze")
            return self.count

    def thaw(self, seconds: int) -> int:
        with self._alone():
            self.asked.append("thaw")
            self._check("thaw")
            self.frozen = False
            return self.count

    def _check(self, what: str) -> None:
        if self.silent:
            raise Unanswered("nobody answers")
        if what in self.failing:
            raise self.failing[what]

    def _alone(self) -> Any:
        session = self

        class Turn:
            def __enter__(self) -> None:
                assert session._talking.acquire(blocking=False), "two talk to the agent at once"
                session.held.wait(10)

            def __exit__(self, *_: object) -> None:
                session._talking.release()

        return Turn()


@pytest.fixture
def session() -> PlayedSession:
    return PlayedSession()


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    return LauncherOptions(namespace="default", name="web", uid="u-1", root=str(tmp_path))


@pytest.fixture
def changes() -> list[int]:
    return []


@pytest.fixture
def agent(session: PlayedSession, options: LauncherOptions, changes: list[int]) -> Iterator[GuestAgent]:
    found = GuestAgent(cast("LibvirtSession", session), RunRecord(options), lambda: changes.append(1))
    found.follow(connected=True, running=True)
    yield found
    session.held.set()
    found.follow(connected=False, running=False)


def status(agent: GuestAgent) -> DomainStatus:
    found = DomainStatus()
    agent.answers.fill(found)
    return found


def heard(agent: GuestAgent) -> None:
    """Until everything has been said once."""
    wait_until(lambda: status(agent).fs_freeze_status, "the agent has been heard")


def promised(options: LauncherOptions) -> bool:
    return (Path(options.run_directory) / "freeze.json").exists()


def test_what_an_agent_says_when_it_comes_is_told_once(agent: GuestAgent, changes: list[int]) -> None:
    heard(agent)
    wait_until(lambda: changes, "it is told")
    assert agent.answers.info().hostname == "web"
    assert [user.name for user in agent.answers.users().users] == ["root"]
    assert len(changes) == 1


def test_what_is_mounted_is_told_without_waiting_while_the_agent_is_there(
    session: PlayedSession, agent: GuestAgent
) -> None:
    heard(agent)
    asked = list(session.asked)
    assert agent.answers.known_filesystems() == tuple(agent.answers.filesystems().filesystems) != ()
    agent.follow(connected=False, running=True)
    assert agent.answers.known_filesystems() == ()
    assert session.asked.count("guest-get-fsinfo") == asked.count("guest-get-fsinfo") == 1


def test_the_load_is_told_while_it_is_fresh_and_the_agent_is_there(
    agent: GuestAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard(agent)
    assert agent.answers.known_load() == {"load.1m": 250, "load.5m": 1500, "load.15m": 2000}
    monkeypatch.setattr(agent_answers, "FRESH_LOAD_SECONDS", -1.0)
    assert agent.answers.known_load() == {}
    monkeypatch.undo()
    agent.follow(connected=False, running=True)
    assert agent.answers.known_load() == {}


def test_who_asks_early_gets_the_whole_of_it(agent: GuestAgent) -> None:
    info = agent.answers.info()
    assert (info.os_id, info.hostname, info.timezone, info.agent_version) == ("debian", "web", "UTC, 0", "7.2")
    assert [user.name for user in info.users] == ["root"]


def test_who_asks_an_agent_that_says_little_gets_that(
    session: PlayedSession, options: LauncherOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_answers, "FIRST_SECONDS", 0.2)
    session.failing = {"guest-get-host-name": Unanswered("it takes its time")}
    found = GuestAgent(cast("LibvirtSession", session), RunRecord(options), lambda: None)
    found.follow(connected=True, running=True)
    assert (found.answers.info().os_id, found.answers.info().hostname) == ("debian", "")
    with pytest.raises(Unanswered, match="has not answered"):
        found.answers.filesystems()
    found.follow(connected=False, running=False)


def test_few_wait_for_an_agent_that_has_just_come(session: PlayedSession, options: LauncherOptions) -> None:
    session.held.clear()
    found = GuestAgent(cast("LibvirtSession", session), RunRecord(options), lambda: None)
    found.follow(connected=True, running=True)
    answers: list[int] = []
    waiting = [
        threading.Thread(target=lambda: answers.append(len(found.answers.users().users)), daemon=True)
        for _ in range(agent_answers.MOST_WAITING)
    ]
    for thread in waiting:
        thread.start()
    wait_until(lambda: found.answers._waiting == agent_answers.MOST_WAITING, "they wait")
    with pytest.raises(Unanswered, match="has not answered"):
        found.answers.users()
    session.held.set()
    for thread in waiting:
        thread.join(10)
    assert answers == [1] * agent_answers.MOST_WAITING
    found.follow(connected=False, running=False)


def test_a_freeze_is_promised_and_kept(agent: GuestAgent, session: PlayedSession, options: LauncherOptions) -> None:
    heard(agent)
    agent.freezer.freeze(1)
    assert (session.frozen, promised(options), status(agent).fs_freeze_status) == (True, True, "frozen")
    wait_until(lambda: not session.frozen, "it thaws by itself")
    wait_until(lambda: not promised(options), "the promise is kept")


def test_a_freeze_that_must_not_be_leaves_no_promise(
    agent: GuestAgent, session: PlayedSession, options: LauncherOptions
) -> None:
    seen = []

    def refuse() -> None:
        # Whoever it asks must find the promise, so that not both go on.
        seen.append((agent.freezer.is_on, session.frozen))
        raise WrongState("the guest is moving")

    with pytest.raises(WrongState, match="is moving"):
        agent.freezer.freeze(300, refuse)
    assert seen == [(True, False)]
    assert (session.frozen, agent.freezer.is_on, promised(options)) == (False, False, False)


def test_a_freeze_that_fails_is_thawed_at_once(
    agent: GuestAgent, session: PlayedSession, options: LauncherOptions
) -> None:
    heard(agent)
    session.failing = {"freeze": Unanswered("it took too long")}
    with pytest.raises(Unanswered, match="it took too long"):
        agent.freezer.freeze(300)
    wait_until(lambda: not session.frozen and not promised(options), "it is thawed all the same")


def test_a_thaw_that_fails_is_tried_until_it_succeeds(
    agent: GuestAgent, session: PlayedSession, options: LauncherOptions
) -> None:
    heard(agent)
    agent.freezer.freeze(300)
    session.failing = {"thaw": LibvirtFailed("thawing", 1, 10, "not now")}
    with pytest.raises(LibvirtFailed):
        agent.freezer.unfreeze()
    assert promised(options)
    tries = session.asked.count("thaw")
    wait_until(lambda: session.asked.count("thaw") > tries, "it is tried again")
    session.failing = {}
    wait_until(lambda: not session.frozen and not promised(options), "it thaws")


def test_a_silent_agent_is_not_frozen_and_nothing_is_promised(
    agent: GuestAgent, session: PlayedSession, options: LauncherOptions
) -> None:
    heard(agent)
    session.silent = True
    with pytest.raises(Unanswered):
        agent.freezer.freeze(300)
    assert not promised(options)


@pytest.mark.parametrize("error", [Unreadable("is no UTF-8"), Unanswered("x")])
def test_an_agent_that_makes_no_sense_is_not_frozen(
    agent: GuestAgent, session: PlayedSession, options: LauncherOptions, error: LauncherError
) -> None:
    heard(agent)
    session.failing = {"guest-fsfreeze-status": error}
    with pytest.raises(Unanswered):
        agent.freezer.freeze(300)
    assert (session.frozen, promised(options)) == (False, False)


def test_a_guest_without_anything_to_freeze_stays_thawed(
    agent: GuestAgent, session: PlayedSession, options: LauncherOptions
) -> None:
    heard(agent)
    session.count = 0
    agent.freezer.freeze(300)
    assert (status(agent).fs_freeze_status, promised(options)) == ("thawed", False)


def test_a_guest_that_is_frozen_already_is_not_frozen_again(agent: GuestAgent, session: PlayedSession) -> None:
    heard(agent)
    agent.freezer.freeze(300)
    session.failing = {"freeze": LibvirtFailed("freezing", 1, 10, "it is frozen")}
    agent.freezer.freeze(300)
    assert status(agent).fs_freeze_status == "frozen"
    agent.freezer.unfreeze()
    assert not session.frozen


def test_the_next_launcher_thaws_what_the_last_one_froze(
    session: PlayedSession, options: LauncherOptions, tmp_path: Path
) -> None:
    record = RunRecord(options)
    record.keep_freeze(0.0)
    session.frozen = True
    second = GuestAgent(cast("LibvirtSession", session), record, lambda: None)
    assert session.frozen
    second.follow(connected=True, running=True)
    wait_until(lambda: not session.frozen and not promised(options), "it is thawed")
    second.follow(connected=False, running=False)


def test_a_guest_that_was_rebooted_while_frozen_is_not_taken_for_frozen(
    agent: GuestAgent, session: PlayedSession, options: LauncherOptions
) -> None:
    heard(agent)
    agent.freezer.freeze(300)
    session.frozen = False
    agent.follow(connected=False, running=True)
    assert status(agent).fs_freeze_status == ""
    agent.follow(connected=True, running=True)
    wait_until(lambda: not promised(options), "the promise is no longer needed")
    assert status(agent).fs_freeze_status == "thawed"


def test_while_the_guest_stands_still_nothing_is_asked(agent: GuestAgent, session: PlayedSession) -> None:
    heard(agent)
    agent.follow(connected=True, running=False)
    with pytest.raises(WrongState, match="paused"):
        agent.freezer.freeze(1)
    assert agent.answers.info().hostname == "web", "what was said is still known"


def test_an_order_that_is_refused_goes_another_way(agent: GuestAgent) -> None:
    heard(agent)

    def refuse() -> None:
        raise LibvirtFailed("shutting down", 1, 10, "no")

    given: list[str] = []
    assert agent.orders.give(lambda: given.append("shut down"), 5.0)
    assert not agent.orders.give(refuse, 5.0)
    assert not agent.orders.give(lambda: given.append("again"), 5.0), "it is not asked again before it has spoken"
    assert given == ["shut down"]


def test_an_order_that_is_not_obeyed_holds_up_nobody(agent: GuestAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_orders, "ORDER_TURN_SECONDS", 0.05)
    monkeypatch.setattr(agent_line, "TURN_SECONDS", 0.05)
    heard(agent)
    obeyed = threading.Event()
    assert agent.orders.give(lambda: wait(obeyed), 0.05)
    assert not agent.orders.give(lambda: None, 0.05), "the next one takes another way"
    with pytest.raises(Unanswered, match="busy"):
        agent.freezer.freeze(1)
    obeyed.set()


def test_a_frozen_guest_is_not_told_to_shut_down_by_its_agent(agent: GuestAgent, session: PlayedSession) -> None:
    heard(agent)
    agent.freezer.freeze(300)
    assert not agent.orders.give(lambda: pytest.fail("it cannot"), 0.1)
    agent.freezer.thaw_soon()
    wait_until(lambda: not session.frozen, "it thaws")


def test_one_freeze_at_a_time(agent: GuestAgent, session: PlayedSession) -> None:
    heard(agent)
    session.held.clear()
    first = threading.Thread(target=agent.freezer.freeze, args=(300,), daemon=True)
    first.start()
    wait_until(lambda: agent.line.state.is_requested, "the first is under way")
    with pytest.raises(Unanswered, match="already"):
        agent.freezer.freeze(300)
    session.held.set()
    first.join(10)
    assert session.frozen


def test_what_cannot_be_read_is_told(session: PlayedSession, options: LauncherOptions) -> None:
    session.failing = {command: Unreadable("cannot be read") for command in (*ANSWERS, "guest-fsfreeze-status")}
    agent = GuestAgent(cast("LibvirtSession", session), RunRecord(options), lambda: None)
    agent.follow(connected=True, running=True)
    wait_until(lambda: status(agent).agent_trouble, "the trouble is told")
    assert status(agent).agent_trouble == "its answer to guest-info cannot be read"
    assert len(session.asked) == 1, "such an agent is not asked the next thing at once"
    agent.follow(connected=False, running=False)
    assert status(agent).agent_trouble == ""


def test_what_an_agent_said_is_not_put_down_to_the_next_one(session: PlayedSession, options: LauncherOptions) -> None:
    session.held.clear()
    agent = GuestAgent(cast("LibvirtSession", session), RunRecord(options), lambda: None)
    agent.follow(connected=True, running=True)
    wait_until(lambda: agent.line.talking.locked(), "the first is being asked")
    agent.follow(connected=False, running=True)
    session.held.set()
    wait_until(lambda: not agent.line.talking.locked(), "it has answered")
    assert agent.line.state.facts.version == ""
    with pytest.raises(WrongState, match="not connected"):
        agent.answers.info()


def test_a_probe_is_answered_between_the_other_questions(agent: GuestAgent, session: PlayedSession) -> None:
    heard(agent)
    agent.probes.ping(1)
    assert agent.probes.execute(["true"], 1, lambda: True).exit_code == 0
    assert session.asked[-3:] == ["guest-ping", "guest-exec", "guest-exec-status"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unanswered("nobody answers"), "nobody answers"),
        (Unreadable("is no UTF-8"), "the guest agent's answer is no UTF-8"),
        (LibvirtFailed("asking", 1, 10, "it is disabled"), "the guest agent refuses: it is disabled"),
    ],
    ids=["silent", "mad", "forbidden"],
)
def test_a_probe_that_is_not_answered_says_why(
    agent: GuestAgent, session: PlayedSession, changes: list[int], error: LauncherError, expected: str
) -> None:
    heard(agent)
    session.failing = {"guest-ping": error, "guest-exec": error}
    before, found = len(changes), DomainStatus()
    for _ in range(2):
        with pytest.raises((Unanswered, WrongState), match=expected):
            agent.probes.ping(1)
    agent.probes.fill(found)
    assert (found.failed_pings, len(changes) - before) == (1, 1)
    with pytest.raises((Unanswered, WrongState), match=expected):
        agent.probes.execute(["true"], 1, lambda: True)


def test_a_probe_waits_for_its_turn_only_as_long_as_it_may(agent: GuestAgent) -> None:
    heard(agent)
    with agent.line.talking, pytest.raises(Unanswered, match="busy"):
        agent.probes.ping(0)


@pytest.mark.parametrize(
    ("connected", "running", "words"), [(False, True, "not connected"), (True, False, "paused")], ids=str
)
def test_a_probe_of_a_guest_that_cannot_answer_is_a_no_at_once(
    agent: GuestAgent, session: PlayedSession, connected: bool, running: bool, words: str
) -> None:
    heard(agent)
    agent.follow(connected=connected, running=running)
    asked = len(session.asked)
    with pytest.raises(WrongState, match=words):
        agent.probes.ping(1)
    assert len(session.asked) == asked


def test_a_freeze_is_no_failure_of_a_probe(agent: GuestAgent, session: PlayedSession) -> None:
    heard(agent)
    agent.freezer.freeze(300)
    reply = agent.probes.execute(["true"], 1, lambda: True)
    assert (reply.exit_code, reply.output) == (0, "not asked: the guest's file systems are frozen")
    assert "guest-exec" not in session.asked
    agent.probes.ping(1)
    assert session.asked[-1] == "guest-ping", "that much it answers"
    agent.freezer.unfreeze()
    session.held.clear()
    freezing = threading.Thread(target=agent.freezer.freeze, args=(300,), daemon=True)
    freezing.start()
    wait_until(lambda: agent.line.state.is_requested, "it is under way")
    agent.probes.ping(1)
    session.held.set()
    freezing.join(10)


def wait(event: threading.Event) -> None:
    event.wait(10)
