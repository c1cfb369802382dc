"""When something is due that is done again and again: after a duration, or by a cron expression.

Called by the plans of schedules of snapshots and of backups. Pure. A clock that goes back puts nothing off by as much;
after whatever was missed, while the box was off, one is due and not many.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from msgspec import Struct

from kvedge.resources.values.cron_schedule import due_after
from kvedge.runtime.clock import parse_rfc3339


class Turn(NamedTuple):
    """What a round that begins now was due at, when the next one is, and how many have been missed before it."""

    due: datetime
    following: datetime
    missed: int


class Times(Protocol):
    """The times of one schedule."""

    def first(self, now: datetime) -> datetime:
        """When the first one is due."""

    def after(self, last: datetime) -> datetime:
        """When the next one is due after one that was due then."""

    def take(self, due: datetime, now: datetime) -> Turn:
        """The round that begins now, which was due then or later."""


class Every(Struct, frozen=True):
    """Again after so long; the first one at once."""

    step: timedelta

    def first(self, now: datetime) -> datetime:
        """When the first one is due."""
        return now

    def after(self, last: datetime) -> datetime:
        """When the next one is due after one that was due then."""
        return last + self.step

    def take(self, due: datetime, now: datetime) -> Turn:
        """The round that begins now, which was due then or later."""
        behind = max(0, (now - due) // self.step)
        return Turn(due + behind * self.step, due + (behind + 1) * self.step, behind)


class Cron(Struct, frozen=True):
    """At the times of a cron expression."""

    expression: str

    def first(self, now: datetime) -> datetime:
        """When the first one is due. Raises IllegalSchedule when none ever is."""
        return due_after(self.expression, now)

    def after(self, last: datetime) -> datetime:
        """When the next one is due after one that was due then. Raises IllegalSchedule when none ever is."""
        return due_after(self.expression, last)

    def take(self, due: datetime, now: datetime) -> Turn:
        """The round that begins now, which was due then or later; of those missed no more than one is counted."""
        following = due_after(self.expression, now)
        return Turn(due, following, int(due_after(self.expression, due) <= now))


class Anchor(NamedTuple):
    """When the last one was due and when the next one is."""

    last: datetime | None
    next: datetime


def anchor(times: Times, last: str | None, following: str | None, now: datetime) -> Anchor:
    """The times that hold now, of those that a status tells. A clock that has gone back does not put one off."""
    before = None if last is None else parse_rfc3339(last)
    if before is not None and before > now:
        before = now
    if before is None:
        # What is due stays at the time at which it was.
        told = None if following is None else parse_rfc3339(following)
        first = times.first(now)
        return Anchor(None, first if told is None or told > first else told)
    return Anchor(before, times.after(before))
