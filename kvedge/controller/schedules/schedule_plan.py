"""What has to be done about one snapshot schedule now: the next snapshot, old ones, its status.

Called by `schedule_loop`. Pure. Snapshots are ordered by their number, never by a time: the clock of a box may jump. At
most one is under way, and after whatever was missed one is taken, not many.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.controller.kubevirt.condition_rules import with_condition
from kvedge.controller.schedules.due_times import Every, anchor
from kvedge.controller.schedules.schedule_pruning import find_superseded, sequence_of
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.disks.schedule_names import SCHEDULE, SCHEDULE_UID, SEQUENCE, scheduled_name
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.types.protection.schedules import (
    DEFAULT_KEEP,
    VirtualMachineSnapshotSchedule,
    VirtualMachineSnapshotScheduleStatus,
)
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotSpec
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.runtime.clock import parse_rfc3339, rfc3339

# While another operation has the VM, and while a snapshot is under way: their ends are told, this is for what is not.
LOOK_SECONDS: Final = 30.0
_LONGEST: Final = 1000
_WELL: Final = ("True", "Scheduled", "")


class ScheduleView(Struct, frozen=True):
    """One schedule, its VM, and the snapshots that it has taken.

    `in_use` are names of snapshots that a restore or a clone works with. `stranger` says that something else has the
    name of the next one; `refusal` is why the server did not take it.
    """

    schedule: VirtualMachineSnapshotSchedule
    vm: VirtualMachine | None = None
    snapshots: Sequence[VirtualMachineSnapshot] = ()
    in_use: Collection[str] = ()
    stranger: bool = False
    refusal: str = ""


def plan_schedule(view: ScheduleView, now: datetime) -> SnapshotPlan:
    """What to do."""
    schedule = view.schedule
    if schedule.metadata.deletion_timestamp is not None:
        # What it has taken stays.
        return SnapshotPlan()
    try:
        every = timedelta(seconds=parse_duration(schedule.spec.every))
    except (DurationError, OverflowError) as error:
        return _report(view, now, schedule.status, ("False", "IllegalSchedule", f"spec.every: {error}"))
    status, told = _look_at_current(view, now)
    status = _anchor(status, every, now)
    if schedule.spec.suspend:
        status = msgspec.structs.replace(status, next_schedule_time=None)
        return _report(view, now, status, ("True", "Suspended", ""), told=told)
    return _plan_next(view, now, status, every, told)


def _look_at_current(
    view: ScheduleView, now: datetime
) -> tuple[VirtualMachineSnapshotScheduleStatus, tuple[Told, ...]]:
    """The status after what became of the snapshot that was under way."""
    status = view.schedule.status
    name = status.current_snapshot
    if name is None:
        return status, ()
    found = next((each for each in view.snapshots if each.metadata.name == name), None)
    if found is not None and found.status.ready_to_use:
        done = msgspec.structs.replace(
            status,
            current_snapshot=None,
            failures=0,
            last_success_time=rfc3339(now),
            last_success_snapshot=name,
        )
        return done, (Told("Normal", "SnapshotTaken", f"snapshot {name} is complete"),)
    if found is not None and not found.is_final and found.metadata.deletion_timestamp is None:
        return status, ()
    failure = None if found is None else condition(found.status.conditions, "Failure")
    lost = f"it was refused: {view.refusal}" if view.refusal else "it was deleted"
    why = lost if found is None else "it failed" if failure is None else failure.reason
    failed = msgspec.structs.replace(status, current_snapshot=None, failures=(status.failures or 0) + 1)
    return failed, (Told("Warning", "SnapshotFailed", f"snapshot {name}: {why}"),)


def _anchor(
    status: VirtualMachineSnapshotScheduleStatus, every: timedelta, now: datetime
) -> VirtualMachineSnapshotScheduleStatus:
    """The status with the time of the next one."""
    last, due = anchor(Every(every), status.last_schedule_time, status.next_schedule_time, now)
    return msgspec.structs.replace(
        status,
        last_schedule_time=None if last is None else rfc3339(last),
        next_schedule_time=rfc3339(due),
    )


def _plan_next(
    view: ScheduleView,
    now: datetime,
    status: VirtualMachineSnapshotScheduleStatus,
    every: timedelta,
    told: tuple[Told, ...],
) -> SnapshotPlan:
    schedule, vm = view.schedule, view.vm
    pruned = _prune(view)
    due = parse_rfc3339(status.next_schedule_time or rfc3339(now))
    is_due = due <= now
    if status.current_snapshot is not None:
        state = _WELL
        if is_due:
            state = ("False", "Late", f"snapshot {status.current_snapshot} is not complete, and the next one is due")
        return _report(view, now, status, state, pruned, told=told, again=LOOK_SECONDS)
    if not is_due:
        again = (due - now).total_seconds()
        return _report(view, now, status, _outcome(status), pruned, told=told, again=again)
    if vm is None or vm.metadata.deletion_timestamp is not None:
        state = ("False", "SourceDoesNotExist", f"VM {schedule.spec.source.name} does not exist")
        return _report(view, now, status, state, pruned, told=told, again=LOOK_SECONDS)
    if busy := vm.status.snapshot_in_progress or vm.status.restore_in_progress:
        state = _outcome(status)
        if due + every <= now:
            state = ("False", "Late", f"{busy} has had VM {vm.metadata.name} since the last one was due")
        return _report(view, now, status, state, pruned, told=told, again=LOOK_SECONDS)
    number = _next_number(view, status)
    name = scheduled_name(schedule.spec.source.name, schedule.metadata.name, number)
    turn = Every(every).take(due, now)
    begun = msgspec.structs.replace(
        status,
        last_sequence=number,
        last_schedule_time=rfc3339(turn.due),
        next_schedule_time=rfc3339(turn.following),
        current_snapshot=None if view.stranger else name,
    )
    # A name that somebody else has is passed over.
    made: tuple[SnapshotAction, ...] = () if view.stranger else (Create(_make(schedule, name, number)),)
    if view.stranger:
        begun = msgspec.structs.replace(status, last_sequence=number)
    if any(each.metadata.name == name for each in view.snapshots):
        # It was made before that could be written down.
        made = ()
    return _report(view, now, begun, _outcome(status), (*pruned, *made), told=told, again=LOOK_SECONDS)


def next_name(schedule: VirtualMachineSnapshotSchedule, snapshots: Sequence[VirtualMachineSnapshot]) -> str:
    """The name that the next snapshot gets."""
    number = _next_number(ScheduleView(schedule, snapshots=snapshots), schedule.status)
    return scheduled_name(schedule.spec.source.name, schedule.metadata.name, number)


def _next_number(view: ScheduleView, status: VirtualMachineSnapshotScheduleStatus) -> int:
    """One more than the last; a schedule whose status was lost goes on behind what it has taken."""
    last = status.last_sequence or 0
    taken = [sequence_of(each) for each in view.snapshots]
    if status.last_sequence is None:
        last = max(taken, default=0)
    return last + 1


def _prune(view: ScheduleView) -> tuple[SnapshotAction, ...]:
    schedule = view.schedule
    keep = max(1, schedule.spec.keep if schedule.spec.keep is not None else DEFAULT_KEEP)
    gone = find_superseded(view.snapshots, keep, {*view.in_use, schedule.status.current_snapshot or ""})
    return tuple(Delete(each) for each in gone)


def _outcome(status: VirtualMachineSnapshotScheduleStatus) -> tuple[str, str, str]:
    if status.failures:
        return ("False", "SnapshotFailed", f"the last {status.failures} in a row have failed")
    return _WELL


def _make(schedule: VirtualMachineSnapshotSchedule, name: str, number: int) -> VirtualMachineSnapshot:
    meta = schedule.metadata
    labels = {SCHEDULE: meta.name, SCHEDULE_UID: meta.uid, SEQUENCE: str(number)}
    return VirtualMachineSnapshot(
        metadata=ObjectMeta(name=name, namespace=meta.namespace, labels=labels),
        spec=VirtualMachineSnapshotSpec(source=schedule.spec.source),
    )


def _report(
    view: ScheduleView,
    now: datetime,
    status: VirtualMachineSnapshotScheduleStatus,
    state: tuple[str, str, str],
    actions: Sequence[SnapshotAction] = (),
    *,
    told: Sequence[Told] = (),
    again: float | None = None,
) -> SnapshotPlan:
    """Do something, and write the status where it is another one."""
    old = view.schedule.status
    value, reason, message = state
    before = condition(old.conditions, "Ready")
    states = old.conditions
    if before is None or (before.status, before.reason, before.message) != (value, reason, message[:_LONGEST]):
        ready = Condition(
            type="Ready", status=value, reason=reason, message=message[:_LONGEST], last_transition_time=rfc3339(now)
        )
        states = with_condition(old.conditions, ready, now)
    wanted = msgspec.structs.replace(status, conditions=states)
    body = merge_difference(encode(old), encode(wanted))
    writes: tuple[SnapshotAction, ...] = tuple(actions)
    if body:
        writes = (*writes, Patch(view.schedule, {"status": body}, "status"))
    more: tuple[Told, ...] = ()
    if value == "False" and reason != "SnapshotFailed" and (before is None or before.reason != reason):
        more = (Told("Warning", reason, message),)
    return SnapshotPlan(writes, (*told, *more), again)
