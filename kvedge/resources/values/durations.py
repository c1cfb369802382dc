"""Durations as Kubernetes' API writes them: Go's, such as 5m0s or 1h30m.

Used where one is read from an object or a call. Touches nothing.
"""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
# Go keeps nanoseconds in 64 bits: 292 years.
_MOST_SECONDS: Final = (1 << 63) / 1e9
_LONGEST: Final = 64
# Kubernetes takes any number of 64 bits for a grace period. A Pod adds seconds of its own, and no system call waits
# longer than 292 years: 68 years are as good as for ever.
LONGEST_GRACE_SECONDS: Final = 2**31 - 1


def bound_grace(seconds: int) -> int:
    """A grace period that may be added to and waited for: none that is negative, none beyond the longest."""
    return max(0, min(seconds, LONGEST_GRACE_SECONDS))


class DurationError(ValueError):
    """The text is no duration."""


def parse_duration(text: str) -> float:
    """Seconds, negative ones too.

    Raises:
        DurationError: in Go's words.
    """
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0.0
    seconds, at = 0.0, 0
    while len(text) <= _LONGEST and (found := _PART.match(rest, at)):
        seconds += float(found[1]) * _SECONDS[found[2]]
        at = found.end()
    if at == 0 or at < len(rest) or seconds > _MOST_SECONDS:
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        raise DurationError(f'time: invalid duration "{shown}"')
    return -seconds if text.startswith("-") else seconds
