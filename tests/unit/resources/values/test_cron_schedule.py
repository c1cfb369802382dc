"""When schedules are due."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kvedge.resources.values.cron_schedule import IllegalSchedule, due_after

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        ("30 3 * * *", datetime(2026, 1, 3, 3, 30, tzinfo=UTC)),
        ("*/15 * * * *", datetime(2026, 1, 2, 12, 15, tzinfo=UTC)),
        ("0 12 * * *", datetime(2026, 1, 3, 12, 0, tzinfo=UTC)),
        ("0 0 29 2 *", datetime(2028, 2, 29, tzinfo=UTC)),
        ("0 0 * * MON", datetime(2026, 1, 5, tzinfo=UTC)),
        ("@weekly", datetime(2026, 1, 4, tzinfo=UTC)),
        ("@hourly", datetime(2026, 1, 2, 13, tzinfo=UTC)),
    ],
)
def test_the_next_time_is_the_one_that_cron_has(schedule: str, due: datetime) -> None:
    assert due_after(schedule, NOON) == due


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "soon",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "0 0 31 2 *",
        "@never",
        "* " * 400,
        "1-" + "9" * 190 + " * * * *",
    ],
)
def test_what_is_no_schedule_is_said_to_be_none(schedule: str) -> None:
    with pytest.raises(IllegalSchedule):
        due_after(schedule, NOON)
