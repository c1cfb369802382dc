"""When a cron expression is due: the one door to the cron library.

Called by the plans of crons and schedules, and by admission. Pure. Times are UTC, as a box in the field may be told its
time zone after its schedules.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from cronsim import CronSim, CronSimError

_LONGEST: Final = 200
# Kubernetes' CronJobs know these words.
_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class IllegalSchedule(ValueError):
    """It is no cron expression, or one that is never due."""


def due_after(schedule: str, moment: datetime) -> datetime:
    """The first time after `moment` at which a schedule is due.

    Raises:
        IllegalSchedule: it never is.
    """
    expression = _WORDS.get(schedule.strip(), schedule)
    if len(expression) > _LONGEST or len(expression.split()) != 5:
        raise IllegalSchedule(schedule[:_LONGEST])
    try:
        return next(CronSim(expression, moment.astimezone(UTC)))
    except (CronSimError, StopIteration) as error:
        raise IllegalSchedule(schedule[:_LONGEST]) from error
