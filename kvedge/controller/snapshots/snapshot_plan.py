"""What has to be done about one snapshot now: its VM's lock, its content, the copies, its status.

Called by `snapshot_loop`. Pure. The copies are made while nobody writes the disks, and the VM is let go when all are
complete: a snapshot is one point in time, or it has failed and says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.snapshots.content_plan import (
    claim_names,
    copy_names,
    make_content,
    plan_content_status,
)
from kvedge.controller.snapshots.driver_plan import is_moment_over, plan_after_moment, plan_driver, plan_thaw
from kvedge.controller.snapshots.driver_snapshots import is_of_driver
from kvedge.controller.snapshots.live_copies import is_live, withdraw
from kvedge.controller.snapshots.live_plan import indicate, plan_live
from kvedge.controller.snapshots.memory.memory_backup import wants_memory
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.controller.snapshots.snapshot_deadline import count_seconds_left
from kvedge.controller.snapshots.snapshot_report import (
    COMPLETE,
    GOING,
    NOT_READY,
    READY,
    fail_snapshot,
    find_last_wait,
    report_snapshot,
    say_error,
    soonest,
    succeed_snapshot,
)
from kvedge.controller.snapshots.snapshot_view import SnapshotView
from kvedge.controller.snapshots.source_lock import find_obstacle, holds_lock, lock, runs, unlock
from kvedge.controller.snapshots.volume_copies import (
    FAILED,
    SUCCEEDED,
    describe_copies,
    is_claim_sealed,
    is_sealed,
    left_out_volumes,
    loses_data,
    make_copy,
    seal,
)
from kvedge.resources.disks.memory_saves import find_memory_fault
from kvedge.resources.disks.snapshot_names import CONTENT_FINALIZER, SNAPSHOT_FINALIZER, content_name
from kvedge.resources.types.protection.snapshots import (
    SnapshotVolumes,
    VirtualMachineSnapshotContent,
    VirtualMachineSnapshotStatus,
)
from kvedge.resources.types.vm import VirtualMachine

_LOCK_SECONDS: Final = 5.0
# No change of a claim is told.
_LOOK_SECONDS: Final = 30.0


def plan_snapshot(view: SnapshotView, now: datetime) -> SnapshotPlan:
    """What to do."""
    snapshot, status = view.snapshot, view.snapshot.status
    if snapshot.metadata.deletion_timestamp is not None:
        return _plan_deletion(view, now)
    if SNAPSHOT_FINALIZER not in snapshot.metadata.finalizers:
        body = {"metadata": {"finalizers": [*snapshot.metadata.finalizers, SNAPSHOT_FINALIZER]}}
        return SnapshotPlan((Patch(snapshot, body),))
    if snapshot.is_final:
        return _plan_final(view, now)
    if not status.phase:
        return report_snapshot(view, now, _begin(status), (NOT_READY, ("Progressing", "False", "Source not locked")))
    left = count_seconds_left(view, now)
    if left is not None and left <= 0:
        return fail_snapshot(view, now, "snapshot deadline exceeded", find_last_wait(view))
    if view.content is not None and is_of_driver(view.content) and is_moment_over(view):
        # What becomes of the VM changes it no more.
        return _plan_driver_end(view, view.content, now, left)
    if view.vm is None or (status.source_uid and view.vm.metadata.uid != status.source_uid):
        if view.content is not None:
            return fail_snapshot(view, now, "the VM is gone")
        missing = ("Progressing", "False", "Source does not exist")
        return report_snapshot(view, now, status, (NOT_READY, missing), again=left)
    if view.content is None:
        return _plan_beginning(view, view.vm, now, left)
    return _plan_copies(view, view.content, view.vm, now, left)


def plan_letting_go(content: VirtualMachineSnapshotContent, unfilled: Sequence[str]) -> Patch | None:
    """The write by which a content goes that somebody has deleted; its copies follow it, so that it stays for claims
    that are still to be filled.
    """
    if unfilled or content.metadata.deletion_timestamp is None or CONTENT_FINALIZER not in content.metadata.finalizers:
        return None
    left = [each for each in content.metadata.finalizers if each != CONTENT_FINALIZER]
    return Patch(content, {"metadata": {"finalizers": left}})


def _plan_beginning(view: SnapshotView, vm: VirtualMachine, now: datetime, left: float | None) -> SnapshotPlan:
    status = view.snapshot.status
    if wants_memory(view.snapshot) and not runs(view.vmi):
        return fail_snapshot(view, now, find_memory_fault(vm.metadata.name, view.vmi))
    if not holds_lock(view.snapshot, vm) and (obstacle := find_obstacle(view, vm)):
        waiting = ("Progressing", "False", f"Source not locked {obstacle}")
        return report_snapshot(view, now, status, (NOT_READY, waiting), again=soonest(left, _LOCK_SECONDS))
    write = lock(view.snapshot, vm)
    if write is not None:
        return SnapshotPlan((write,))
    if not status.source_uid:
        # What it is taken of is written down before anything is made.
        marked = msgspec.structs.replace(status, source_uid=vm.metadata.uid)
        return report_snapshot(view, now, marked, (NOT_READY, GOING))
    if obstacle := find_obstacle(view, vm):
        # It began to run before it was locked: a new look, once it waits for nobody.
        released = unlock(view.snapshot.metadata.name, vm)
        waiting = ("Progressing", "False", f"Source not locked {obstacle}")
        plan = report_snapshot(view, now, msgspec.structs.replace(status, source_uid=None), (NOT_READY, waiting))
        return SnapshotPlan((*plan.actions, *_one(released)), again_after=_LOCK_SECONDS)
    if wants_memory(view.snapshot) and (fault := find_memory_fault(vm.metadata.name, view.vmi)):
        return fail_snapshot(view, now, fault)
    content = make_content(view, vm)
    text = f"Successfully created VirtualMachineSnapshotContent {content.metadata.name}"
    return SnapshotPlan((Create(content),), (Told("Normal", "SuccessfulVirtualMachineSnapshotContentCreate", text),))


def _plan_copies(
    view: SnapshotView, content: VirtualMachineSnapshotContent, vm: VirtualMachine, now: datetime, left: float | None
) -> SnapshotPlan:
    if is_of_driver(content):
        return plan_driver(view, content, vm, now, left)
    copies = {name: view.copies.get(name) for name in copy_names(content)}
    if is_live(content):
        done = all(name in view.claims and is_claim_sealed(view.claims[name]) for name in copies)
        # One without any disk has a moment, too.
        done = done and bool(copies or view.snapshot.status.creation_time)
    else:
        done = all(copy is not None and is_sealed(copy) for copy in copies.values())
    if done:
        return _plan_completion(view, content, vm, now)
    if content.metadata.deletion_timestamp is not None:
        return fail_snapshot(view, now, "its VirtualMachineSnapshotContent was deleted")
    if not holds_lock(view.snapshot, vm):
        return fail_snapshot(view, now, "the VM was unlocked while its disks were copied")
    if is_live(content):
        return plan_live(view, content, vm, now, left)
    if runs(view.vmi) or view.pods:
        return fail_snapshot(view, now, "the VM was started while its disks were copied")
    failed = next((copy for copy in copies.values() if copy is not None and copy.status.phase == FAILED), None)
    if failed is not None:
        return fail_snapshot(view, now, f"copy failed: {describe_copies({'': failed})}")
    named = claim_names(content)
    made: list[SnapshotAction] = []
    told: list[Told] = []
    for backup in content.spec.volume_backups:
        name = backup.volume_snapshot_name or ""
        copy, source = copies.get(name), view.claims.get(named[backup.volume_name])
        if copy is None and source is None:
            return fail_snapshot(view, now, f"PVC {named[backup.volume_name]} of volume {backup.volume_name} is gone")
        if copy is None and source is not None:
            made.append(Create(make_copy(content, backup, source, vm.metadata.name)))
            told.append(Told("Normal", "SuccessfulVolumeSnapshotCreate", f"Successfully created VolumeSnapshot {name}"))
        elif copy is not None and copy.status.phase == SUCCEEDED and not is_sealed(copy) and name in view.claims:
            made.append(Patch(copy, seal(name, view.claims[name])))
    body = plan_content_status(view, content, now, complete=False, error=view.refusal)
    if body:
        made.append(Patch(content, {"status": body}, "status"))
    status = msgspec.structs.replace(
        view.snapshot.status,
        virtual_machine_snapshot_content_name=content.metadata.name,
        snapshot_volumes=SnapshotVolumes(
            included_volumes=list(named), excluded_volumes=left_out_volumes(vm, view.claims, content)
        ),
        error=content.status.error,
    )
    plan = report_snapshot(
        view, now, status, (NOT_READY, GOING), again=left, message=view.refusal or describe_copies(copies)
    )
    # Copies first: all are begun before one is waited for.
    return SnapshotPlan(
        (*made, *plan.actions), tuple(told), soonest(left, _LOCK_SECONDS if view.refusal else _LOOK_SECONDS)
    )


def _plan_completion(
    view: SnapshotView, content: VirtualMachineSnapshotContent, vm: VirtualMachine, now: datetime
) -> SnapshotPlan:
    body = plan_content_status(view, content, now, complete=True, moment=view.snapshot.status.creation_time)
    if body:
        return SnapshotPlan((Patch(content, {"status": body}, "status"),))
    indications = [indicate("PartialSnapshot")] if loses_data(vm, view.claims, content) else []
    if is_live(content):
        # Written when the moment had come.
        indications = view.snapshot.status.source_indications
    status = msgspec.structs.replace(
        view.snapshot.status,
        virtual_machine_snapshot_content_name=content.metadata.name,
        indications=[each.indication for each in indications],
        source_indications=indications,
        snapshot_volumes=SnapshotVolumes(
            included_volumes=list(claim_names(content)), excluded_volumes=left_out_volumes(vm, view.claims, content)
        ),
    )
    return succeed_snapshot(view, content, status, now)


def _plan_driver_end(
    view: SnapshotView, content: VirtualMachineSnapshotContent, now: datetime, left: float | None
) -> SnapshotPlan:
    """The disks are taken: the guest goes on, the VM is let go, and the driver makes them ready."""
    if released := _release(view):
        return released
    plan = plan_after_moment(view, content, now, left)
    if plan is not None:
        return plan
    body = plan_content_status(view, content, now, complete=True, moment=view.snapshot.status.creation_time)
    if body:
        return SnapshotPlan((Patch(content, {"status": body}, "status"),))
    return succeed_snapshot(view, content, view.snapshot.status, now)


def _plan_final(view: SnapshotView, now: datetime) -> SnapshotPlan:
    """Nothing more comes of it: the VM is let go, and what becomes of the copies is told."""
    snapshot, content = view.snapshot, view.content
    if released := _release(view):
        return released
    if snapshot.status.phase == "Failed":
        # What is half there is of no use, whatever the policy says.
        return SnapshotPlan((Delete(content),) if content is not None and _stays(content) else ())
    if content is None or content.metadata.deletion_timestamp is not None:
        gone = msgspec.structs.replace(
            snapshot.status,
            ready_to_use=False,
            error=say_error(snapshot, "its VirtualMachineSnapshotContent is gone", now),
        )
        return report_snapshot(view, now, gone, (NOT_READY, ("Progressing", "False", "In error state")))
    body = plan_content_status(view, content, now, complete=True)
    if body:
        lost = content.status.ready_to_use and not body.get("readyToUse", True)
        text = (body.get("error") or {}).get("message") or ""
        told = (Told("Warning", "VolumeSnapshotMissing", text),) if lost else ()
        return SnapshotPlan((Patch(content, {"status": body}, "status"),), told)
    ready = bool(content.status.ready_to_use)
    status = msgspec.structs.replace(snapshot.status, ready_to_use=ready, error=content.status.error)
    progressing = COMPLETE if ready else ("Progressing", "False", "In error state")
    return report_snapshot(view, now, status, (READY if ready else NOT_READY, progressing))


def _plan_deletion(view: SnapshotView, now: datetime) -> SnapshotPlan:
    snapshot, content = view.snapshot, view.content
    if SNAPSHOT_FINALIZER not in snapshot.metadata.finalizers:
        return SnapshotPlan()
    if released := _release(view):
        return released
    retained = snapshot.spec.deletion_policy == "Retain" and content is not None and bool(content.status.ready_to_use)
    if content is not None and not retained:
        deleting = msgspec.structs.replace(snapshot.status, phase="Deleting", ready_to_use=False)
        words = ("Progressing", "False", "VM snapshot is deleting")
        if view.unfilled:
            why = f"PVC {view.unfilled[0]} is still to be filled from it: start the VM that has it, or delete the PVC"
            return report_snapshot(view, now, deleting, (NOT_READY, words), message=why, again=_LOOK_SECONDS)
        plan = report_snapshot(view, now, deleting, (NOT_READY, words))
        return SnapshotPlan((*plan.actions, *((Delete(content),) if _stays(content) else ())))
    left = [each for each in snapshot.metadata.finalizers if each != SNAPSHOT_FINALIZER]
    return SnapshotPlan((Patch(snapshot, {"metadata": {"finalizers": left}}),))


def _release(view: SnapshotView) -> SnapshotPlan | None:
    """What lets the guest and the VM go next; None when both are."""
    snapshot = view.snapshot
    if (write := withdraw(view.vmi, content_name(snapshot.metadata.uid))) is not None:
        return SnapshotPlan((write,))
    if thawing := plan_thaw(view):
        return thawing
    is_ours = snapshot.status.source_uid in (None, "") or (
        view.vm is not None and view.vm.metadata.uid == snapshot.status.source_uid
    )
    write = unlock(snapshot.metadata.name, view.vm) if is_ours else None
    return None if write is None else SnapshotPlan((write,))


def _begin(status: VirtualMachineSnapshotStatus) -> VirtualMachineSnapshotStatus:
    return msgspec.structs.replace(status, phase="InProgress", ready_to_use=False)


def _stays(content: VirtualMachineSnapshotContent) -> bool:
    return content.metadata.deletion_timestamp is None


def _one(write: Patch | None) -> tuple[Patch, ...]:
    return () if write is None else (write,)
