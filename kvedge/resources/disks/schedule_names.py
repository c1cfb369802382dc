"""Labels and names of snapshots that a schedule has taken.

Used by the controller, which takes them, and by clients, which show them. Pure.
"""

from __future__ import annotations

from typing import Final

# Labels of such a snapshot: name and UID of its schedule, and its number.
SCHEDULE: Final = "snapshot.kvedge.io/schedule"
SCHEDULE_UID: Final = "snapshot.kvedge.io/schedule-uid"
SEQUENCE: Final = "snapshot.kvedge.io/sequence"
# A user's label: a snapshot that has it is neither deleted nor counted.
PROTECTED: Final = "snapshot.kvedge.io/protected"

_LONGEST: Final = 253


def scheduled_name(vm: str, schedule: str, sequence: int) -> str:
    """The name of the snapshot with that number.

    >>> scheduled_name("web", "hourly", 7), scheduled_name("web", "web-1h", 7)
    ('web-hourly-000007', 'web-1h-000007')
    """
    head = schedule if schedule.startswith(f"{vm}-") else f"{vm}-{schedule}"
    tail = f"-{sequence:06}"
    return f"{head[: _LONGEST - len(tail)].rstrip('-.')}{tail}"
