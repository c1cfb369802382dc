from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kvedge.resources.meta import ObjectMeta
from kvedge.runtime import background
from kvedge.runtime.background import on_trouble
from kvedge.runtime.heartbeat import ROUND_SECONDS, Heartbeat
from kvedge.runtime.rounds import Rounds
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.local_pods import LocalPods
from kvedge.standalone.agent.pod.log_keeper import LogKeeper
from kvedge.standalone.agent.pod.pod_record import new_record
from kvedge.standalone.agent.pod.resolv_conf_keeper import ResolvConfKeeper
from tests.support.builders import plain_pod as pod
from tests.support.clocks import FakeClock
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


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_long_round_over_many_things_is_stuck_only_when_one_of_them_is(goes_on: bool) -> None:
    clock = FakeClock()
    failures: list[str | None] = []

    def go_round() -> None:
        assert rounds._thread is not None
        heartbeat = rounds._thread.heartbeat = Heartbeat("it", ROUND_SECONDS, clock.monotonic)
        rounds.beat()
        for _ in range(3):
            for _ in range(200):
                clock.seconds += 1.0
                failures.append(rounds.failure())
            if goes_on:
                rounds.beat()
        heartbeat.rest()
        over.set()

    over = threading.Event()
    rounds = Rounds("test", "counts", 3600, go_round, at_once=True)
    rounds.start()
    assert over.wait(60)
    rounds.stop()
    assert len(failures) == 600
    assert [failure for failure in failures if failure] == [] or not goes_on
    assert (failures[-1] == "the thread that counts hangs or has ended: it has been stuck for 600 s") is not goes_on


COUNT = 5


def logs(path: Path) -> tuple[Rounds, Callable[[], None]]:
    for number in range(COUNT):
        log = PodFiles(path / str(number)).container("c").log
        log.parent.mkdir(parents=True)
        log.write_text("one\n")
    keeper = LogKeeper(path)
    return keeper.rounds, lambda: keeper.look(1.0)


def resolv_confs(path: Path) -> tuple[Rounds, Callable[[], None]]:
    pods = LocalPods(path)
    for number in range(COUNT):
        made = pod()
        made.metadata = ObjectMeta(
            name=f"p{number}", namespace="ns", uid=f"00000000-0000-0000-0000-00000000000{number}"
        )
        pods.take_on(made, new_record(made))
    keeper = ResolvConfKeeper(pods, lambda: "nameserver 192.0.2.1\n")
    return keeper.rounds, keeper.look


@pytest.mark.parametrize("keeper", [logs, resolv_confs])
def test_a_keeper_of_many_things_beats_for_each(
    keeper: Callable[[Path], tuple[Rounds, Callable[[], None]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, look = keeper(tmp_path)
    beats: list[int] = []
    monkeypatch.setattr(rounds, "beat", lambda: beats.append(1))
    look()
    assert len(beats) == COUNT
