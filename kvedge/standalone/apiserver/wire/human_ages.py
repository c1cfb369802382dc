"""Ages as kubectl shows them: `45s`, `3m12s`, `5h`, `12d`, `2y14d`.

Called by table_manifest. Pure; the time is given.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from kvedge.resources.codec import JsonValue

UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"
_DAY: Final = 24


def human_duration(seconds: float) -> str:
    """Two or three significant figures of a duration; a little below zero counts as now, as clocks differ."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return f"{minutes}m" + (f"{whole % 60}s" if whole % 60 else "")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h" + (f"{minutes % 60}m" if minutes % 60 else "")
    if hours < 48:
        return f"{hours}h"
    return _days(hours)


def age(timestamp: JsonValue, now: datetime) -> str:
    """How long ago an RFC 3339 text was; `<unknown>` when there is none."""
    if not timestamp:
        return UNKNOWN
    try:
        moment = datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        return INVALID
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return human_duration((now - moment).total_seconds())


def _days(hours: int) -> str:
    days = hours // _DAY
    if days < 8:
        return f"{days}d" + (f"{hours % _DAY}h" if hours % _DAY else "")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8 and days % 365:
        return f"{days // 365}y{days % 365}d"
    return f"{days // 365}y"
