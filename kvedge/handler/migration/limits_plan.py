"""When a migration has taken too long (KubeVirt's monitor).

Called by the source's steps with what the launcher says of the way. Pure. KubeVirt compares what is left with the look
before, so that a guest that writes in bursts never stalls; here the lowest value seen has to fall.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from kvedge.resources.configuration.configuration import Migrations
from kvedge.resources.types.kubevirt_configuration import MigrationConfiguration
from kvedge.rpc.launcher_pb2 import OutgoingMigration

_DEFAULTS: Final = Migrations()
# KubeVirt's GiB here has ten to the ninth bytes.
_GIB: Final = 10**9


class Progress(NamedTuple):
    """What was seen of one migration so far; times are on the monotonic clock.

    `first_total` is what was to be sent when it was first known: what is sent again counts again later.
    """

    began: float
    lowest: int
    lowest_at: float
    first_total: int = 0


def follow_progress(before: Progress | None, said: OutgoingMigration, now: float) -> Progress:
    """With one more look."""
    known = said.total_bytes > 0
    if before is None:
        return Progress(now, said.left_bytes if known else 0, now, said.total_bytes)
    if not known:
        return before
    if before.first_total == 0:
        return Progress(before.began, said.left_bytes, now, said.total_bytes)
    if said.left_bytes < before.lowest:
        return before._replace(lowest=said.left_bytes, lowest_at=now)
    return before


def find_overrun(progress: Progress, sizes: tuple[int, int], limits: MigrationConfiguration | None, now: float) -> str:
    """Why the guest is to stay; empty while it may go on.

    `sizes` are the bytes of its memory, and of its disks that are copied to other claims. A guest that may be stopped
    on the way, as `is_too_slow` has it, gets its time a second time.
    """
    given = limits or MigrationConfiguration()
    progress_seconds = _or(given.progress_timeout, _DEFAULTS.progress_timeout)
    still = now - progress.lowest_at
    if progress_seconds and progress.first_total and still > progress_seconds:
        return f"nothing less was left to send for {still:.0f} s: progressTimeout is {progress_seconds} s"
    allowed = _find_allowed(progress, sizes, given) * (2 if given.allow_workload_disruption else 1)
    taken = now - progress.began
    if allowed and taken > allowed:
        return f"the migration has taken {taken:.0f} s: completionTimeoutPerGiB allows {allowed} s for this guest"
    return ""


def is_too_slow(progress: Progress, sizes: tuple[int, int], limits: MigrationConfiguration | None, now: float) -> bool:
    """Whether the guest's CPUs are to be stopped so that it gets away: its time is over, and its user allows that."""
    given = limits or MigrationConfiguration()
    allowed = _find_allowed(progress, sizes, given)
    return bool(given.allow_workload_disruption) and 0 < allowed < now - progress.began


def _find_allowed(progress: Progress, sizes: tuple[int, int], given: MigrationConfiguration) -> int:
    """How many seconds a guest of that size has; 0 is no limit."""
    memory, copied = sizes
    for_gib = _or(given.completion_timeout_per_gib, _DEFAULTS.completion_timeout_per_gib)
    # libvirt copies disks first, and tells of memory when that is done.
    disks = progress.first_total - memory if progress.first_total >= memory else progress.first_total
    return for_gib * math.ceil((memory + max(disks, copied)) / _GIB)


def _or(given: int | None, default: int) -> int:
    return default if given is None else given
