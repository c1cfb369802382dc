"""What a snapshot reports: its status with its conditions, and why it has failed.

Called by `snapshot_plan`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.snapshots.snapshot_actions import Patch, SnapshotPlan, Told
from kvedge.controller.snapshots.snapshot_status import set_states
from kvedge.controller.snapshots.snapshot_view import SnapshotView
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.meta import condition
from kvedge.resources.types.protection.snapshots import (
    SnapshotError,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VirtualMachineSnapshotStatus,
)
from kvedge.runtime.clock import rfc3339

NOT_READY: Final = ("Ready", "False", "Not ready")
READY: Final = ("Ready", "True", "Ready")
COMPLETE: Final = ("Progressing", "False", "Operation complete")
GOING: Final = ("Progressing", "True", "Source locked and operation in progress")


def find_last_wait(view: SnapshotView) -> str:
    """What it waited for in the end."""
    progress = condition(view.snapshot.status.conditions, "Progressing")
    if progress is None:
        return ""
    return progress.message or (progress.reason if progress.status == "False" else "")


def fail_snapshot(view: SnapshotView, now: datetime, why: str, detail: str = "") -> SnapshotPlan:
    """It ends here; the VM is let go and the copies go in the next pass."""
    text = f"{why}: {detail}" if detail else why
    status = msgspec.structs.replace(
        view.snapshot.status, phase="Failed", ready_to_use=False, error=say_error(view.snapshot, text, now)
    )
    if view.content is not None:
        status.virtual_machine_snapshot_content_name = view.content.metadata.name
    return report_snapshot(
        view,
        now,
        status,
        (NOT_READY, ("Progressing", "False", "Operation failed"), ("Failure", "True", why)),
        told=(Told("Warning", "VirtualMachineSnapshotFailed", text),),
    )


def succeed_snapshot(
    view: SnapshotView, content: VirtualMachineSnapshotContent, status: VirtualMachineSnapshotStatus, now: datetime
) -> SnapshotPlan:
    """It has what it is to hold, by its content's word."""
    done = msgspec.structs.replace(
        status,
        phase="Succeeded",
        creation_time=content.status.creation_time,
        ready_to_use=content.status.ready_to_use,
        error=content.status.error,
    )
    return report_snapshot(view, now, done, (READY if content.status.ready_to_use else NOT_READY, COMPLETE))


def report_snapshot(
    view: SnapshotView,
    now: datetime,
    status: VirtualMachineSnapshotStatus,
    states: Sequence[tuple[str, str, str]],
    *,
    again: float | None = None,
    message: str = "",
    told: tuple[Told, ...] = (),
) -> SnapshotPlan:
    """Write a status where it is another one; conditions are given by type, status and reason."""
    wanted = msgspec.structs.replace(
        status, conditions=set_states(view.snapshot.status.conditions, now, *states, message=message)
    )
    body = merge_difference(encode(view.snapshot.status), encode(wanted))
    if not body:
        return SnapshotPlan(again_after=again)
    return SnapshotPlan((Patch(view.snapshot, {"status": body}, "status"),), told, again)


def say_error(snapshot: VirtualMachineSnapshot, text: str, now: datetime) -> SnapshotError:
    """An error with the time at which it was first so."""
    old = snapshot.status.error
    return old if old is not None and old.message == text else SnapshotError(time=rfc3339(now), message=text)


def soonest(*waits: float | None) -> float | None:
    """The shortest of these; None when nothing is waited for."""
    return min((wait for wait in waits if wait is not None), default=None)
