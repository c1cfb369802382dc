"""What a restore reports: its status with its conditions, what it waits for, and why it has failed.

Called by `restore_plan` and `restore_target`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.snapshots.snapshot_actions import Patch, SnapshotPlan, Told
from kvedge.controller.snapshots.snapshot_status import set_states
from kvedge.controller.snapshots.snapshot_view import RestoreView
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.types.protection.snapshots import VirtualMachineRestoreStatus

LOOK_SECONDS: Final = 5.0
_ERROR: Final = "VirtualMachineRestoreError"


def unlock_target(view: RestoreView) -> tuple[Patch, ...]:
    """The write that lets go of the VM; none when the restore does not have it."""
    vm = view.vm
    if vm is None or vm.status.restore_in_progress != view.restore.metadata.name:
        return ()
    return (Patch(vm, {"status": {"restoreInProgress": None}}, "status"),)


def wait_for(view: RestoreView, now: datetime, why: str) -> SnapshotPlan:
    """Say what is waited for, by an event, too: KubeVirt's restores count it as an error that may pass."""
    status, state = view.restore.status, ("False", why)
    return report_restore(view, now, status, state, state, told=(_tell_error(why),), again=LOOK_SECONDS)


def fail_restore(view: RestoreView, now: datetime, why: str, reason: str = _ERROR) -> SnapshotPlan:
    """It ends here; the VM is let go and the new disks go in the next pass."""
    told = _tell_error(why) if reason == _ERROR else Told("Warning", reason, why)
    status, state = view.restore.status, ("False", why)
    return report_restore(view, now, status, state, state, told=(told,), failure=why)


def _tell_error(why: str) -> Told:
    return Told("Warning", _ERROR, f"VirtualMachineRestore encountered error {why}")


def report_restore(
    view: RestoreView,
    now: datetime,
    status: VirtualMachineRestoreStatus,
    progressing: tuple[str, str],
    ready: tuple[str, str],
    *,
    message: str = "",
    told: Sequence[Told] = (),
    again: float | None = None,
    failure: str = "",
) -> SnapshotPlan:
    """Write a status where it is another one; Progressing and Ready are given by status and reason."""
    states: list[tuple[str, str, str]] = [("Progressing", *progressing), ("Ready", *ready)]
    if failure:
        states.append(("Failure", "True", failure))
    wanted = msgspec.structs.replace(
        status, conditions=set_states(view.restore.status.conditions, now, *states, message=message)
    )
    body = merge_difference(encode(view.restore.status), encode(wanted))
    if not body:
        return SnapshotPlan(again_after=again)
    return SnapshotPlan((Patch(view.restore, {"status": body}, "status"),), tuple(told), again)
