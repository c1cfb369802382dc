"""What has to be done about a snapshot whose disks a storage driver keeps: from the content on until all are ready.

Called by `snapshot_plan`. Pure. A guest that runs is frozen by its agent before the first VolumeSnapshot is asked for,
and thawed when the last one has its moment. Then the VM is let go: what drivers still do changes the snapshots no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kvedge.controller.snapshots.content_plan import claim_names, copy_names, plan_content_status
from kvedge.controller.snapshots.driver_snapshots import (
    BY_AGENT,
    BY_PAUSE,
    describe_driver_fault,
    is_kept,
    is_of_content,
    is_taken,
    is_windows,
    make_driver_snapshot,
)
from kvedge.controller.snapshots.live_plan import indicate
from kvedge.controller.snapshots.snapshot_actions import (
    Create,
    Freeze,
    Patch,
    SnapshotAction,
    SnapshotPlan,
    Thaw,
    Told,
)
from kvedge.controller.snapshots.snapshot_report import GOING, NOT_READY, fail_snapshot, report_snapshot, soonest
from kvedge.controller.snapshots.snapshot_view import SnapshotView
from kvedge.controller.snapshots.source_lock import holds_lock, runs
from kvedge.controller.snapshots.volume_copies import left_out_volumes, loses_data
from kvedge.resources.disks.snapshot_names import FROZEN_UNTIL, HELD_BY, RUN
from kvedge.resources.types.protection.snapshots import (
    SnapshotVolumes,
    VirtualMachineSnapshotContent,
    VirtualMachineSnapshotStatus,
)
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import is_paused
from kvedge.runtime.clock import rfc3339, seconds_since

# A guest that nobody thaws does so after this long. Windows gives up after 10 s by itself, and tells nobody.
_FROZEN_SECONDS: Final = 60
_WINDOWS_SECONDS: Final = 10
_LOOK_SECONDS: Final = 30.0
_SOON_SECONDS: Final = 1.0
_FROZEN: Final = "frozen"
_ASKED: Final = "the guest's agent is asked to freeze its file systems"
# After an agent has refused.
_NEXT_TRY: Final = timedelta(seconds=5)
_OTHER_WAY: Final = "stop or pause the VM, or annotate the snapshot with kvedge.io/snapshot-method=claim-copies"


def is_moment_over(view: SnapshotView) -> bool:
    """Whether all disks are taken, and the VM is nothing to the snapshot any more."""
    return bool(view.snapshot.status.creation_time)


def plan_driver(
    view: SnapshotView, content: VirtualMachineSnapshotContent, vm: VirtualMachine, now: datetime, left: float | None
) -> SnapshotPlan:
    """What to do until all disks are taken."""
    found = view.driver_snapshots
    if found is None:
        return _wait(view, content, vm, now, "VolumeSnapshots are not listed yet", _SOON_SECONDS)
    if content.metadata.deletion_timestamp is not None:
        return fail_snapshot(view, now, "its VirtualMachineSnapshotContent was deleted")
    if not holds_lock(view.snapshot, vm):
        return fail_snapshot(view, now, "the VM was unlocked while its disks were copied")
    run = content.metadata.annotations.get(RUN)
    if run and (view.vmi is None or view.vmi.is_final or view.vmi.metadata.uid != run):
        return fail_snapshot(view, now, "the VM ended while its disks were copied")
    if not run and (runs(view.vmi) or view.pods):
        return fail_snapshot(view, now, "the VM was started while its disks were copied")
    names = copy_names(content)
    foreign = next((name for name in names if name in found and not is_of_content(found[name], content)), "")
    if foreign:
        return fail_snapshot(view, now, f"VolumeSnapshot {foreign} exists already, and is none of this snapshot")
    missing = [name for name in names if not is_kept(found.get(name), content)]
    if missing:
        return _plan_creation(view, content, vm, missing, now, left)
    if all(is_taken(found[name]) for name in names):
        return _fix_moment(view, content, vm, now)
    body = plan_content_status(view, content, now, complete=False)
    writes = (Patch(content, {"status": body}, "status"),) if body else ()
    fault = describe_driver_fault(content, found)
    plan = _wait(view, content, vm, now, fault or _describe(found, names), soonest(left, _LOOK_SECONDS))
    return SnapshotPlan((*writes, *plan.actions), plan.told, plan.again_after)


def plan_after_moment(
    view: SnapshotView, content: VirtualMachineSnapshotContent, now: datetime, left: float | None
) -> SnapshotPlan | None:
    """What to do until all VolumeSnapshots can be restored; None when they can."""
    if content.metadata.deletion_timestamp is not None:
        return fail_snapshot(view, now, "its VirtualMachineSnapshotContent was deleted")
    found, names = view.driver_snapshots, copy_names(content)
    status = view.snapshot.status
    if found is None:
        return report_snapshot(view, now, status, (NOT_READY, GOING), again=_SOON_SECONDS)
    gone = next((name for name in names if not is_kept(found.get(name), content)), "")
    if gone:
        return fail_snapshot(view, now, f"VolumeSnapshot {gone} no longer exists")
    if all(found[name].status.ready_to_use for name in names):
        return None
    body = plan_content_status(view, content, now, complete=False, moment=status.creation_time)
    writes = (Patch(content, {"status": body}, "status"),) if body else ()
    fault = describe_driver_fault(content, found)
    waiting = next(name for name in names if not found[name].status.ready_to_use)
    plan = report_snapshot(
        view,
        now,
        msgspec.structs.replace(status, error=content.status.error),
        (NOT_READY, GOING),
        again=soonest(left, _LOOK_SECONDS),
        message=fault or f"VolumeSnapshot {waiting} is not ready to use yet",
    )
    return SnapshotPlan((*writes, *plan.actions), plan.told, plan.again_after)


def plan_thaw(view: SnapshotView) -> SnapshotPlan | None:
    """What lets a guest go on that was frozen for this snapshot; None when none is.

    That it may be frozen stays written down until its agent has answered, and the VM stays locked: nobody else has it
    frozen meanwhile.
    """
    content, vmi, call, uid = view.content, view.vmi, view.freeze, view.snapshot.metadata.uid
    if content is None or FROZEN_UNTIL not in content.metadata.annotations:
        asked = vmi is not None and call is not None and call.is_own
        return SnapshotPlan((Thaw(vmi, uid),)) if asked and vmi is not None else None
    is_run = vmi is not None and not vmi.is_final and vmi.metadata.uid == content.metadata.annotations.get(RUN)
    if vmi is None or not is_run or (call is not None and call.is_thawed):
        return SnapshotPlan((Patch(content, {"metadata": {"annotations": {FROZEN_UNTIL: None}}}),))
    is_going = call is not None and not call.is_own
    return SnapshotPlan(() if is_going else (Thaw(vmi, uid),), again_after=_SOON_SECONDS)


def _plan_creation(
    view: SnapshotView,
    content: VirtualMachineSnapshotContent,
    vm: VirtualMachine,
    missing: list[str],
    now: datetime,
    left: float | None,
) -> SnapshotPlan:
    vmi = view.vmi if content.metadata.annotations.get(RUN) else None
    if vmi is not None and len(missing) < len(copy_names(content)):
        # The guest may have written between those that there are and one that is made now.
        why = f"VolumeSnapshot {missing[0]} is not there, and others of the same moment are"
        return fail_snapshot(view, now, why, view.refusal)
    if vmi is not None and content.metadata.annotations.get(HELD_BY) == BY_AGENT:
        held = _plan_freeze(view, content, vm, vmi, now)
        if held is not None:
            return held
    made: list[SnapshotAction] = []
    told: list[Told] = []
    named = claim_names(content)
    for backup in content.spec.volume_backups:
        name, claim = backup.volume_snapshot_name or "", named[backup.volume_name]
        if name not in missing:
            continue
        source = view.claims.get(claim)
        if source is None or source.metadata.deletion_timestamp is not None:
            return fail_snapshot(view, now, f"PVC {claim} of volume {backup.volume_name} is gone")
        if claim not in view.classes.by_claim:
            why = view.classes.doubts.get(claim) or f"no VolumeSnapshotClass is left for PVC {claim}"
            return fail_snapshot(view, now, why)
        made.append(Create(make_driver_snapshot(content, backup, view.classes.by_claim[claim], vm.metadata.name)))
        told.append(Told("Normal", "SuccessfulVolumeSnapshotCreate", f"Successfully created VolumeSnapshot {name}"))
    # First of all: a guest is frozen until the last one is made.
    plan = _wait(view, content, vm, now, view.refusal, soonest(left, _LOOK_SECONDS))
    return SnapshotPlan((*made, *plan.actions), tuple(told), plan.again_after)


def _plan_freeze(
    view: SnapshotView,
    content: VirtualMachineSnapshotContent,
    vm: VirtualMachine,
    vmi: VirtualMachineInstance,
    now: datetime,
) -> SnapshotPlan | None:
    """What freezes the guest; None when it is frozen, by its own word."""
    was_asked, is_on = FROZEN_UNTIL in content.metadata.annotations, _is_surely_frozen(content, now)
    # One disk alone is of one moment also when the guest has thawed since.
    if vmi.status.fs_freeze_status == _FROZEN and (is_on or (was_asked and len(copy_names(content)) == 1)):
        return None
    if is_on:
        text = f"the guest's agent has not frozen its file systems yet; if it has none that can be frozen, {_OTHER_WAY}"
        return _wait(view, content, vm, now, text, _SOON_SECONDS)
    call = view.freeze
    plan = _wait(view, content, vm, now, (call.fault if call is not None else "") or _ASKED, _SOON_SECONDS)
    if call is not None and (call.ended is None or (call.fault and now < call.ended + _NEXT_TRY)):
        return plan
    if call is not None and call.begun is not None and not call.fault:
        # From when it was asked: its launcher counts from later on.
        seconds = _WINDOWS_SECONDS if is_windows(vmi) else _FROZEN_SECONDS
        until = rfc3339(call.begun + timedelta(seconds=seconds))
        if content.metadata.annotations.get(FROZEN_UNTIL) != until:
            mark = {"metadata": {"annotations": {FROZEN_UNTIL: until}}}
            return SnapshotPlan((*plan.actions, Patch(content, mark)), plan.told, _SOON_SECONDS)
    freeze = Freeze(vmi, _FROZEN_SECONDS, view.snapshot.metadata.uid)
    return SnapshotPlan((*plan.actions, freeze), plan.told, _SOON_SECONDS)


def _fix_moment(
    view: SnapshotView, content: VirtualMachineSnapshotContent, vm: VirtualMachine, now: datetime
) -> SnapshotPlan:
    """All are taken: what the guest did meanwhile is written down, and it goes on."""
    indications, is_held = _judge_hold(view, content, now)
    if not is_held and len(set(claim_names(content).values())) > 1:
        text = f"the guest wrote while its disks were taken one after the other: {_OTHER_WAY}"
        return fail_snapshot(view, now, text)
    if loses_data(vm, view.claims, content):
        indications = (*indications, "PartialSnapshot")
    told = [indicate(name) for name in sorted(indications)]
    status = msgspec.structs.replace(
        _status(view, content, vm),
        creation_time=rfc3339(now),
        indications=[each.indication for each in told],
        source_indications=told,
    )
    plan = report_snapshot(view, now, status, (NOT_READY, GOING))
    thawing = plan_thaw(view) or SnapshotPlan()
    return SnapshotPlan((*plan.actions, *thawing.actions), plan.told, _SOON_SECONDS)


def _judge_hold(
    view: SnapshotView, content: VirtualMachineSnapshotContent, now: datetime
) -> tuple[tuple[str, ...], bool]:
    """How the guest was while the disks were taken, and whether it wrote nothing for sure."""
    vmi = view.vmi if content.metadata.annotations.get(RUN) else None
    if vmi is None:
        return (), True
    held_by = content.metadata.annotations.get(HELD_BY)
    if held_by == BY_PAUSE:
        return (("Online", "Paused"), True) if is_paused(vmi) else (("Online", "NoGuestAgent"), False)
    if held_by != BY_AGENT:
        return ("Online", "NoGuestAgent"), False
    is_held = _is_surely_frozen(content, now) and vmi.status.fs_freeze_status == _FROZEN
    return ("Online", "GuestAgent" if is_held else "QuiesceTimeout"), is_held


def _is_surely_frozen(content: VirtualMachineSnapshotContent, now: datetime) -> bool:
    """Whether the guest does not thaw by itself yet."""
    age = seconds_since(content.metadata.annotations.get(FROZEN_UNTIL), now)
    return age is not None and age <= 0


def _wait(
    view: SnapshotView,
    content: VirtualMachineSnapshotContent,
    vm: VirtualMachine,
    now: datetime,
    why: str,
    again: float | None,
) -> SnapshotPlan:
    return report_snapshot(view, now, _status(view, content, vm), (NOT_READY, GOING), again=again, message=why)


def _status(
    view: SnapshotView, content: VirtualMachineSnapshotContent, vm: VirtualMachine
) -> VirtualMachineSnapshotStatus:
    return msgspec.structs.replace(
        view.snapshot.status,
        virtual_machine_snapshot_content_name=content.metadata.name,
        snapshot_volumes=SnapshotVolumes(
            included_volumes=list(claim_names(content)), excluded_volumes=left_out_volumes(vm, view.claims, content)
        ),
        error=content.status.error,
    )


def _describe(found: Mapping[str, VolumeSnapshot], names: list[str]) -> str:
    waiting = next((name for name in names if not is_taken(found.get(name))), "")
    return f"VolumeSnapshot {waiting} is not taken yet" if waiting else ""
