"""The time, as something that can be handed in: loops take a :class:`Clock`, tests hand in their own.

Touches the system's clocks only here.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a loop may know of the time."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()


def rfc3339(moment: datetime) -> str:
    """A time as metav1.Time has it: whole seconds, UTC, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """A time as metav1.MicroTime has it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime:
    """The moment that a metav1.Time or MicroTime names.

    Raises:
        ValueError: when the text is no RFC 3339 time.
    """
    return datetime.fromisoformat(text)


def seconds_since(text: str | None, now: datetime) -> float | None:
    """How long ago a moment was that a document names; None where it names none."""
    try:
        moment = parse_rfc3339(text or "")
    except ValueError:
        return None
    return (now - moment.replace(tzinfo=moment.tzinfo or UTC)).total_seconds()
