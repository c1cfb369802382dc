"""Whether a snapshot can be restored, from what, and what has to be done before its VM can take it.

Called by `restore_plan`. Pure. One operation at a time has a VM: the others wait, and say for which one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.controller.snapshots.driver_snapshots import fill_from, is_kept, is_of_driver
from kvedge.controller.snapshots.restore_report import (
    LOOK_SECONDS,
    fail_restore,
    report_restore,
    unlock_target,
    wait_for,
)
from kvedge.controller.snapshots.restored_vm import owners_with
from kvedge.controller.snapshots.snapshot_actions import Delete, Patch, SnapshotPlan
from kvedge.controller.snapshots.snapshot_view import RestoreView
from kvedge.controller.snapshots.volume_copies import copy_of, is_usable
from kvedge.resources.types.data_volumes import DataVolumeSpec
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContent, VolumeRestore
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import seconds_since

_GRACE_SECONDS: Final = 300.0
_POWER_OFF: Final = "Waiting for target VM to be powered off. Please stop the restore target to proceed with restore"
_IN_TIME: Final = ", or the operation will fail after 5m0s"
_STOPPING: Final = "Automatically stopping restore target for restore operation"
_TOO_LATE: Final = (
    "Restore target failed to be ready within 5m0s. Please power off the target VM before attempting restore"
)
_RUNS: Final = "Restore target VMI must be powered off before restore operation"


def judge_snapshot(view: RestoreView) -> tuple[str, str]:
    """Why the snapshot can never be restored, or what is waited for."""
    restore, snapshot, content = view.restore, view.snapshot, view.content
    named = f"VMSnapshot {restore.metadata.namespace}/{restore.spec.virtual_machine_snapshot_name}"
    if snapshot is None or snapshot.metadata.deletion_timestamp is not None:
        # Nothing was begun: it may still come.
        begun = bool(restore.status.restores)
        return (f"{named} is gone", "") if begun else ("", f"{named} does not exist")
    if snapshot.status.phase == "Failed":
        return f"{named} failed and is invalid to use", ""
    if not snapshot.status.ready_to_use or content is None or not content.status.ready_to_use:
        if snapshot.status.phase == "Succeeded" and snapshot.status.error is not None:
            return f"{named} is not usable any more: {snapshot.status.error.message}", ""
        return "", f"{named} not ready"
    if is_of_driver(content) and view.driver_snapshots is None:
        return "", "VolumeSnapshots are not listed yet"
    return "", ""


def find_filling(
    view: RestoreView, content: VirtualMachineSnapshotContent, volume: VolumeRestore
) -> DataVolumeSpec | str:
    """What fills a new disk, or why nothing can."""
    name = volume.volume_snapshot_name
    if is_of_driver(content):
        item = (view.driver_snapshots or {}).get(name)
        if item is None or not is_kept(item, content):
            return f"VolumeSnapshot {name} is gone"
        backup = next(each for each in content.spec.volume_backups if each.volume_snapshot_name == name)
        return fill_from(backup, item)
    kept = view.claims.get(name)
    if kept is None:
        return f"PVC {name}, which holds the copy, is gone"
    if not is_usable(view.copies.get(name), kept):
        # Nobody tells the snapshot of a claim that was made anew.
        return f"PVC {name} is not the one that the snapshot's copy was put into"
    return copy_of(kept)


def is_same(view: RestoreView, vm: VirtualMachine) -> bool:
    """A VM that was deleted and made again under its name is another one."""
    return view.snapshot is not None and vm.metadata.uid == view.snapshot.status.source_uid


def plan_target(view: RestoreView, vm: VirtualMachine, now: datetime) -> SnapshotPlan | None:
    """What has to be done before a VM that is there can be restored; None when it can."""
    restore, name = view.restore, view.restore.metadata.name
    if vm.metadata.deletion_timestamp is not None:
        return wait_for(view, now, f"VM {vm.metadata.name} is being deleted")
    if vm.status.snapshot_in_progress:
        return wait_for(view, now, f'snapshot "{vm.status.snapshot_in_progress}" in progress')
    if vm.status.restore_in_progress not in (None, "", name):
        return wait_for(view, now, f"vm restore {vm.status.restore_in_progress} in progress")
    is_locked = vm.status.restore_in_progress == name
    stops = restore.spec.target_readiness_policy == "StopTarget"
    if view.vmi is not None and not stops:
        # A VM that began to run before it was locked can be stopped by its user only when it is let go.
        return _plan_running(view, now)
    if not is_locked:
        return SnapshotPlan((Patch(vm, {"status": {"restoreInProgress": name}}, "status"),))
    if all(owner.uid != vm.metadata.uid for owner in restore.metadata.owner_references):
        return SnapshotPlan((Patch(restore, {"metadata": {"ownerReferences": owners_with(restore, vm)}}),))
    if view.vmi is not None:
        plan = report_restore(view, now, restore.status, ("False", _STOPPING), ("False", _STOPPING), again=LOOK_SECONDS)
        # The lock keeps it from starting again: how it is to run stays as it is.
        ends = (Delete(view.vmi),) if view.vmi.metadata.deletion_timestamp is None else ()
        return SnapshotPlan((*plan.actions, *ends), plan.told, plan.again_after)
    return None


def _plan_running(view: RestoreView, now: datetime) -> SnapshotPlan:
    policy = view.restore.spec.target_readiness_policy or "WaitGracePeriod"
    if policy == "FailImmediate":
        return fail_restore(view, now, _RUNS)
    words = _POWER_OFF
    left: float | None = None
    if policy == "WaitGracePeriod":
        age = seconds_since(view.restore.metadata.creation_timestamp, now)
        left = _GRACE_SECONDS - (age or 0.0)
        if left <= 0:
            return fail_restore(view, now, _TOO_LATE, reason="RestoreTargetNotReady")
        words += _IN_TIME
    plan = report_restore(view, now, view.restore.status, ("False", words), ("False", words), again=left)
    return SnapshotPlan((*plan.actions, *unlock_target(view)), plan.told, plan.again_after)
