"""What a guest used between two looks at its figures: the values of one point of its ring.

Called by usage_keeper.py. Pure. Figures have libvirt's names and units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kvedge.resources.usage.guest_history import CPUS, MEMORY, READ, RECEIVED, SENT, SERIES, WAIT, WRITTEN
from kvedge.resources.usage.guest_stats import GuestStats, StatsPart

_NANOSECOND: Final = 1e-9
_KIB: Final = 1024
# A later look is the first one again: what went on in between is no rate of this moment.
_LONGEST_SECONDS: Final = 60.0


def usage_point(before: GuestStats | None, now: GuestStats, seconds: float) -> list[float | None]:
    """A value for each of `SERIES`, None where it is not known; `seconds` lie between the two looks."""
    if before is not None and not 0 < seconds <= _LONGEST_SECONDS:
        before = None
    found = {
        CPUS: _rate([before.figures] if before else [], [now.figures], ("cpu.time",), seconds, _NANOSECOND),
        WAIT: _rate_of_parts(before.vcpus if before else None, now.vcpus, ("wait", "delay"), seconds, _NANOSECOND),
        MEMORY: _memory(now),
        READ: _rate_of_parts(before.disks if before else None, now.disks, ("rd.bytes",), seconds),
        WRITTEN: _rate_of_parts(before.disks if before else None, now.disks, ("wr.bytes",), seconds),
        RECEIVED: _rate_of_parts(before.nics if before else None, now.nics, ("rx.bytes",), seconds),
        SENT: _rate_of_parts(before.nics if before else None, now.nics, ("tx.bytes",), seconds),
    }
    return [found[name] for name in SERIES]


def _memory(now: GuestStats) -> float | None:
    figures = now.figures
    if "balloon.available" in figures and "balloon.usable" in figures:
        # The guest itself says what it could do without.
        return max(0, figures["balloon.available"] - figures["balloon.usable"]) * _KIB
    current = figures.get("balloon.current")
    return None if current is None else current * _KIB


def _rate_of_parts(
    before: Iterable[StatsPart] | None,
    now: Sequence[StatsPart],
    names: Sequence[str],
    seconds: float,
    unit: float = 1.0,
) -> float | None:
    """The sum over all parts that were there at both looks: a disk that has just come begins with the next one."""
    then = {part.name: part.figures for part in before or ()}
    both = [part for part in now if part.name in then]
    return _rate([then[part.name] for part in both], [part.figures for part in both], names, seconds, unit)


def _rate(
    before: Sequence[dict[str, int]],
    now: Sequence[dict[str, int]],
    names: Sequence[str],
    seconds: float,
    unit: float = 1.0,
) -> float | None:
    grown = [
        new[name] - old[name]
        for old, new in zip(before, now, strict=False)
        for name in names
        if name in old and name in new
    ]
    # A counter that shrinks is one that was begun anew.
    if not grown or min(grown) < 0:
        return None
    return sum(grown) * unit / seconds
