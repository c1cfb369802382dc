"""A teller tells once, tries again with longer and longer pauses, and holds up nobody else."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvedge.controller.alarms.alarm_board import AlarmBoard
from kvedge.controller.alarms.words.deadline_stream import WordsFailed
from kvedge.controller.alarms.words.tellers import Channel, Taken, Teller, hook_channel
from kvedge.resources.alarms.alarm_rules import Severity
from kvedge.resources.alarms.alarm_state import Alarm
from tests.support.clocks import FakeClock
from tests.support.waiting import wait_until
from tests.unit.controller.alarms.words.played_alarms import an_alarm


class Receiver:
    """Takes what it is told, or fails."""

    def __init__(self) -> None:
        self.heard: list[list[str]] = []
        self.fault: WordsFailed | None = None

    def tell(self, alarms: Sequence[Alarm], taken: Taken) -> None:
        if self.fault is not None:
            raise self.fault
        self.heard.append([each.rule for each in alarms])
        taken(alarms)


def a_teller(receiver: Receiver, *alarms: Alarm, **options: Any) -> tuple[Teller, AlarmBoard]:
    board = AlarmBoard()
    board.publish(alarms)
    given = {"most": 10, "settle": 0.0, **options}
    return Teller(board, Channel("noc", receiver.tell, **given), ""), board


def test_what_was_taken_is_not_told_again() -> None:
    receiver = Receiver()
    teller, _ = a_teller(receiver, an_alarm(), an_alarm("KvmLost"))
    for _ in range(3):
        teller.tell_news()
    assert receiver.heard == [["KvmLost", "NodeLost"]]


def test_only_as_many_at_once_as_it_takes() -> None:
    receiver = Receiver()
    teller, _ = a_teller(receiver, *(an_alarm(name=f"n{number}") for number in range(5)), most=2)
    for _ in range(4):
        teller.tell_news()
    assert [len(each) for each in receiver.heard] == [2, 2, 1]


def test_what_was_not_taken_is_told_again_after_longer_and_longer_pauses() -> None:
    receiver = Receiver()
    receiver.fault = WordsFailed("no carrier")
    teller, _ = a_teller(receiver, an_alarm())
    assert [teller.tell_news() for _ in range(9)] == [15, 30, 60, 120, 240, 480, 900, 900, 900]
    receiver.fault = None
    teller.tell_news()
    assert receiver.heard == [["NodeLost"]]


def test_what_it_will_never_take_is_let_go_and_holds_up_nothing_that_comes_later() -> None:
    receiver = Receiver()
    receiver.fault = WordsFailed("too large", is_final=True)
    teller, board = a_teller(receiver, an_alarm())
    teller.tell_news()
    receiver.fault = None
    board.publish([an_alarm(), an_alarm("KvmLost")])
    teller.tell_news()
    assert receiver.heard == [["KvmLost"]]


def test_a_receiver_hears_of_what_is_bad_enough_for_it() -> None:
    alarms = [an_alarm(rule) for rule in ("NodeLost", "ClockOff", "ClockUnsynchronized")]
    for least, heard in ((Severity.CRITICAL, 1), (Severity.WARNING, 2), (Severity.INFO, 3)):
        receiver = Receiver()
        teller, _ = a_teller(receiver, *alarms, least=least)
        teller.tell_news()
        assert [len(each) for each in receiver.heard] == [heard]


def test_a_receiver_that_hangs_holds_up_no_other_and_no_end() -> None:
    board, receiver, release = AlarmBoard(), Receiver(), threading.Event()

    def hang(alarms: Sequence[Alarm], taken: Taken) -> None:
        release.wait(60)

    tellers = [
        Teller(board, Channel("slow", hang, 9, 0.0), ""),
        Teller(board, Channel("noc", receiver.tell, 9, 0.0), ""),
    ]
    for each in tellers:
        each.start()
    try:
        board.publish([an_alarm()])
        wait_until(lambda: receiver.heard == [["NodeLost"]], "the other one is told")
        assert [each.failure() for each in tellers] == [None, None]
    finally:
        for each in tellers:
            each.stop()
        release.set()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    heard = tmp_path / "heard"
    heard.touch()
    heard.chmod(0o666)
    path = tmp_path / "alert-hook"
    path.write_text(f'#!/bin/sh\nread line\ncase "$line" in *edge-bad*) exit 1;; esac\necho "$line" >> {heard}\n')
    path.chmod(0o755)
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o011)
    return path


def test_the_sites_program_is_told_of_each_and_one_that_it_fails_on_keeps_no_other_back(program: Path) -> None:
    board = AlarmBoard()
    board.publish([an_alarm(name=name) for name in ("edge-1", "edge-bad", "edge-c")])
    teller = Teller(board, hook_channel(program, "site", FakeClock()), "")
    assert teller.tell_news() == 15
    assert teller.tell_news() == 30
    heard = (program.parent / "heard").read_text().splitlines()
    assert [json.loads(line)["name"] for line in heard] == ["edge-1", "edge-c"]
