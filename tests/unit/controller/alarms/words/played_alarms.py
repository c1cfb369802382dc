"""Alarms to tell of."""

from __future__ import annotations

from datetime import UTC, datetime

from kvedge.resources.alarms.alarm_state import Alarm, State

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def an_alarm(
    rule: str = "NodeLost", name: str = "edge-1", state: State = State.FIRING, message: str = "no word"
) -> Alarm:
    return Alarm(
        rule,
        "v1",
        "Node",
        "",
        name,
        "u1",
        state,
        "2026-05-01T12:05:00Z",
        message,
        reason=rule,
        raised="2026-05-01T12:00:00Z",
    )
