"""The board hands each receiver what is news for it, and forgets nothing that it was told."""

from __future__ import annotations

from kvedge.controller.alarms.alarm_board import AlarmBoard
from kvedge.resources.alarms.alarm_state import Alarm, State


def an_alarm(rule: str = "NodeLost", state: State = State.FIRING, **told: str) -> Alarm:
    return Alarm(rule, "v1", "Node", "", "edge-1", "u1", state, "2026-05-01T12:00:00Z", told=told)


def test_each_receiver_hears_of_an_alarm_once() -> None:
    board, written = AlarmBoard(), list[str]()
    board.on_told(lambda: written.append("soon"))
    board.publish([an_alarm(), an_alarm("KvmLost", mail="firing"), an_alarm("ClockOff", State.PENDING)])
    assert [each.rule for each in board.news_for("mail")] == ["NodeLost"]
    assert [each.rule for each in board.news_for("hook")] == ["KvmLost", "NodeLost"]
    board.mark_told("mail", board.news_for("mail"))
    assert board.news_for("mail") == []
    assert written == ["soon"]
    kept = board.take_told([an_alarm(), an_alarm("KvmLost", mail="firing")])
    assert [dict(each.told) for each in kept] == [{"mail": "firing"}, {"mail": "firing"}]
    # It is no news either between the taking over and the next publishing.
    assert board.news_for("mail") == []


def test_an_end_comes_after_the_beginnings() -> None:
    board = AlarmBoard()
    board.publish([an_alarm("ClockOff", State.RESOLVED, mail="firing"), an_alarm()])
    assert [each.rule for each in board.news_for("mail")] == ["NodeLost", "ClockOff"]
