"""Who is told what, once."""

from __future__ import annotations

from kvedge.resources.disks.protection_problems import Problem
from kvedge.standalone.alerts.alert_plan import MOST_AT_ONCE, Alert, plan_alerts, subject_of


def problem(name: str, reason: str = "BackupFailed", message: str = "no route") -> Problem:
    return Problem("BackupSchedule", "backup schedule", "shop", name, reason, message)


def test_what_is_new_is_told_and_what_is_over_too() -> None:
    old, new = problem("old"), problem("new")
    told = {subject_of(old): old}
    assert plan_alerts(told, [new]) == [Alert("firing", new), Alert("resolved", old)]


def test_another_message_is_no_news_and_another_reason_is() -> None:
    before = problem("nightly")
    told = {subject_of(before): before}
    assert plan_alerts(told, [problem("nightly", message="no room")]) == []
    late = problem("nightly", "Late")
    assert plan_alerts(told, [late]) == [Alert("firing", late), Alert("resolved", before)]


def test_so_many_at_once() -> None:
    assert len(plan_alerts({}, [problem(str(number)) for number in range(99)])) == MOST_AT_ONCE
