"""When a schedule is due, by durations and by cron expressions, on clocks that stand, jump and were off."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kvedge.controller.schedules.due_times import Cron, Every, anchor
from kvedge.runtime.clock import rfc3339

NOW = datetime(2026, 5, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NIGHTLY = Cron("30 2 * * *")


def test_the_first_one_is_due_at_once_or_at_the_first_time_of_the_expression() -> None:
    assert anchor(Every(HOUR), None, None, NOW) == (None, NOW)
    assert anchor(NIGHTLY, None, None, NOW) == (None, datetime(2026, 5, 6, 2, 30, tzinfo=UTC))


def test_what_was_due_while_the_box_was_off_stays_due_once() -> None:
    last, due = anchor(NIGHTLY, rfc3339(NOW - timedelta(days=3)), None, NOW)
    assert (last, due) == (NOW - timedelta(days=3), datetime(2026, 5, 3, 2, 30, tzinfo=UTC))
    turn = NIGHTLY.take(due, NOW)
    assert turn.following == datetime(2026, 5, 6, 2, 30, tzinfo=UTC)
    assert turn.missed == 1
    assert NIGHTLY.take(datetime(2026, 5, 5, 2, 30, tzinfo=UTC), NOW).missed == 0

    turn = Every(HOUR).take(NOW - 5 * HOUR, NOW)
    assert turn == (NOW, NOW + HOUR, 5)


def test_a_clock_that_goes_back_puts_nothing_off() -> None:
    future = rfc3339(NOW + timedelta(days=400))
    assert anchor(Every(HOUR), future, None, NOW) == (NOW, NOW + HOUR)
    assert anchor(Every(HOUR), None, future, NOW) == (None, NOW)
    assert anchor(NIGHTLY, future, None, NOW).next == datetime(2026, 5, 6, 2, 30, tzinfo=UTC)


def test_another_time_takes_effect_at_once() -> None:
    last = rfc3339(NOW - 2 * HOUR)
    assert anchor(Every(6 * HOUR), last, rfc3339(NOW - HOUR), NOW).next == NOW + 4 * HOUR
