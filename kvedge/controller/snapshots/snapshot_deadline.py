"""Until when a snapshot has to be taken.

Called by `snapshot_plan`. Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.controller.snapshots.content_plan import copy_names
from kvedge.controller.snapshots.driver_plan import is_moment_over
from kvedge.controller.snapshots.driver_snapshots import describe_driver_fault, is_of_driver
from kvedge.controller.snapshots.live_copies import is_live
from kvedge.controller.snapshots.live_plan import is_moment_fixed
from kvedge.controller.snapshots.snapshot_view import SnapshotView
from kvedge.controller.snapshots.volume_copies import is_going_well
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContent
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.runtime.clock import rfc3339, seconds_since

_DEADLINE_SECONDS: Final = 300.0


def count_seconds_left(view: SnapshotView, now: datetime) -> float | None:
    """How long until the snapshot fails as it takes too long; None for never.

    Unless its user says how long it may take, copies may take as long as they need once all of them go well.
    """
    given = view.snapshot.spec.failure_deadline
    try:
        seconds = _DEADLINE_SECONDS if given is None else parse_duration(given)
    except DurationError:
        # It entered while nobody judged it.
        seconds = _DEADLINE_SECONDS
    if seconds <= 0 or (given is None and view.content is not None and _goes_well(view, view.content)):
        return None
    since = view.snapshot.metadata.creation_timestamp
    if given is None and view.content is not None and is_of_driver(view.content) and is_moment_over(view):
        # Drivers repeat what failed, hours after the moment as well: what counts is how long it has failed.
        error = view.content.status.error
        since = rfc3339(now) if error is None else error.time
    age = seconds_since(since, now)
    return seconds if age is None else seconds - age


def _goes_well(view: SnapshotView, content: VirtualMachineSnapshotContent) -> bool:
    if is_of_driver(content):
        return is_moment_over(view) and not describe_driver_fault(content, view.driver_snapshots or {})
    if is_live(content):
        return is_moment_fixed(view)
    return all(is_going_well(view.copies.get(name)) for name in copy_names(content))
