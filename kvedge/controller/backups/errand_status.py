"""What all errands with backups report alike: when they began, what has changed, and that their time is over.

Called by their plans. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from kvedge.controller.snapshots.snapshot_actions import Patch, SnapshotAction, SnapshotPlan
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.runtime.clock import rfc3339

Errand = BackupRun | BackupRestore | BackupTask | BackupTest


def write_status(item: Errand, now: datetime, **changed: object) -> list[SnapshotAction]:
    """The write of the status that has these fields, by their names here; none when it is so already."""
    old = item.status
    wanted = msgspec.structs.replace(old, **{"start_time": old.start_time or rfc3339(now), **changed})
    body = merge_difference(encode(old), encode(wanted))
    return [Patch(item, {"status": body}, "status")] if body else []


def plan_in_time(
    item: Errand, seconds: float, now: datetime, plan: Callable[[], SnapshotPlan], fail: Callable[[str], SnapshotPlan]
) -> SnapshotPlan:
    """What `plan()` says until so long after the errand began, looked at again then at the latest; then `fail()`."""
    started = datetime.fromisoformat(item.status.start_time) if item.status.start_time else now
    deadline = started + timedelta(seconds=seconds)
    if now >= deadline:
        reason = f": {item.status.message}" if item.status.message else ""
        return fail(f"not complete within its deadline{reason}")
    planned = plan()
    left = max(1.0, (deadline - now).total_seconds())
    again = left if planned.again_after is None else min(planned.again_after, left)
    return SnapshotPlan(planned.actions, planned.told, again)
