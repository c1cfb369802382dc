"""Which locks of a repository may go: restic judges those of other hosts by this host's clock, which may be wrong.

Called by the door to restic. Pure. A lock that goes while its owner works lets another one delete what he has just
written; one that stays makes others wait.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

# restic renews the lock of a run every five minutes.
_OLD: Final = timedelta(hours=24)
# What clocks of boxes and servers may differ by: what lies further ahead of one's own was kept by a wrong one.
CLOCKS_DIFFER: Final = timedelta(minutes=10)
_LONGEST_NAME: Final = 100


class RepositoryLock(Struct, frozen=True):
    """One lock: when it was written or renewed, and on which host by its own name."""

    time: datetime
    host: str


def read_lock(text: bytes) -> RepositoryLock | None:
    """A lock as restic prints it; None for what is none."""
    try:
        found = json.loads(text)
        return RepositoryLock(read_moment(str(found["time"])), str(found["hostname"]))
    except (ValueError, KeyError, TypeError):
        return None


def why_kept(locks: Sequence[RepositoryLock | None], own: str, newest: datetime | None, now: datetime) -> str:
    """Why no lock may be removed, empty when restic may look for dead ones.

    Those of the host `own` it tells by their processes. `newest` is when the latest entry was kept.
    """
    if any(lock is None for lock in locks):
        return "one of its locks cannot be read, or was just renewed"
    others = [lock for lock in locks if lock is not None and lock.host != own]
    if not others:
        return ""
    last = max(others, key=lambda each: each.time)
    held = f"host {last.host[:_LONGEST_NAME]} has a lock of {last.time:%Y-%m-%d %H:%M:%S%z}"
    ahead = max([last.time, *([newest] if newest is not None else [])])
    if ahead > now + CLOCKS_DIFFER:
        return (
            f"{held}, and this host's clock ({now:%Y-%m-%d %H:%M:%S%z}) is behind what lies there, of"
            f" {ahead:%Y-%m-%d %H:%M:%S%z}: a clock is wrong, and by it no lock is old"
        )
    if last.time > now - _OLD:
        return f"{held}: it is taken for dead when it is 24 hours old"
    return ""


def read_moment(text: str) -> datetime:
    """restic writes the time of day of the machine that it runs on, with its zone.

    Raises:
        ValueError: when it is none.
    """
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
