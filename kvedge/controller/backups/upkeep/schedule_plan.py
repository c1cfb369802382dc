"""What has to be done about one schedule of backups now: the next round, old backups, a verification, its status.

Called by the loop of schedules. Pure. One backup of a VM at a time; after whatever was missed one round is made, not
many. Old backups go when a round is over in which at least one succeeded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.controller.backups.upkeep.rounds import (
    find_old_runs,
    find_old_tasks,
    find_old_tests,
    make_prune,
    make_run,
    make_test,
    make_verification,
    run_name,
    sequence_of,
)
from kvedge.controller.backups.upkeep.schedule_results import (
    describe_outcome,
    take_results,
    take_task_results,
    take_test_results,
)
from kvedge.controller.kubevirt.condition_rules import with_condition
from kvedge.controller.schedules.due_times import Cron, Every, Times, anchor
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.protection.backup_schedules import BackupSchedule, BackupScheduleStatus, ScheduledVm
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRun
from kvedge.resources.values.cron_schedule import IllegalSchedule
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.runtime.clock import parse_rfc3339, rfc3339

# While runs are under way: their ends are told, this is for what is not.
LOOK_SECONDS: Final = 30.0
_LONGEST: Final = 1000

_State = tuple[str, str, str]


class ScheduleView(Struct, frozen=True):
    """One schedule, the VMs that it means, and what it has made.

    `absent` are VMs that it names and that are not there; `taken` are names of backups that others have made; `refusal`
    is why the server did not take a backup.
    """

    schedule: BackupSchedule
    vms: Sequence[str] = ()
    absent: Sequence[str] = ()
    too_many: int = 0
    runs: Sequence[BackupRun] = ()
    tasks: Sequence[BackupTask] = ()
    tests: Sequence[BackupTest] = ()
    taken: Collection[str] = ()
    has_repository: bool = True
    refusal: str = ""


def plan_schedule(view: ScheduleView, now: datetime) -> SnapshotPlan:
    """What to do."""
    schedule = view.schedule
    if schedule.metadata.deletion_timestamp is not None:
        # What it has made stays.
        return SnapshotPlan()
    status, told = take_results(schedule.status, view.vms, view.runs, view.refusal, now)
    status = take_test_results(take_task_results(status, view.tasks), view.tests)
    try:
        times = _times_of(schedule)
        last, due = anchor(times, status.last_schedule_time, status.next_schedule_time, now)
        status = msgspec.structs.replace(
            status,
            last_schedule_time=None if last is None else rfc3339(last),
            next_schedule_time=rfc3339(due),
        )
        if schedule.spec.suspend:
            status = msgspec.structs.replace(
                status, next_schedule_time=None, next_verify_time=None, next_test_time=None
            )
            return _report(view, now, status, ("True", "Suspended", ""), told=told)
        return _plan_round(view, now, status, times, told)
    except (DurationError, OverflowError) as error:
        return _report(
            view, now, schedule.status, ("False", "IllegalSchedule", f"spec.every, spec.verifyEvery: {error}")
        )
    except IllegalSchedule:
        return _report(view, now, schedule.status, ("False", "IllegalSchedule", "spec.cron: it is never due"))


def next_sequence(schedule: BackupSchedule, runs: Sequence[BackupRun]) -> int:
    """The number of the next round: of one that has been begun and not been written down, or a new one."""
    last, made = schedule.status.last_sequence, max((sequence_of(each.metadata) for each in runs), default=0)
    return made if _is_half_begun(schedule, made) else max(last or 0, made) + 1


def _is_half_begun(schedule: BackupSchedule, made: int) -> bool:
    """Whether backups of a round are there that the status does not know; one that was lost tells nothing of that."""
    last = schedule.status.last_sequence
    return last is not None and made > last


def _times_of(schedule: BackupSchedule) -> Times:
    if schedule.spec.cron:
        return Cron(schedule.spec.cron)
    return Every(timedelta(seconds=parse_duration(schedule.spec.every)))


def _plan_round(
    view: ScheduleView, now: datetime, status: BackupScheduleStatus, times: Times, told: Sequence[Told]
) -> SnapshotPlan:
    schedule = view.schedule
    history: list[SnapshotAction] = [Delete(each) for each in find_old_runs(schedule, view.runs)]
    history += [Delete(each) for each in find_old_tasks(view.tasks)]
    history += [Delete(each) for each in find_old_tests(view.tests, view.vms)]
    due = parse_rfc3339(status.next_schedule_time or rfc3339(now))
    open_vms = {each.spec.vm_name for each in view.runs if not each.is_final}
    number = next_sequence(schedule, view.runs)
    begun_for = {each.spec.vm_name for each in view.runs if sequence_of(each.metadata) == number}
    free = [name for name in view.vms if name not in open_vms | begun_for]
    if due > now or (open_vms and not free and not begun_for):
        status, made = _plan_upkeep(view, now, status, has_open=bool(open_vms))
        again = LOOK_SECONDS if open_vms or due <= now else (due - now).total_seconds()
        state = _state(view, status, is_due=due <= now)
        return _report(view, now, status, state, (*history, *made), told=told, again=again)
    if not view.has_repository:
        state = ("False", "RepositoryDoesNotExist", f"BackupRepository {schedule.spec.repository_name} does not exist")
        return _report(view, now, status, state, history, told=told, again=LOOK_SECONDS)
    if not free and not begun_for:
        text = f"VM {view.absent[0]} does not exist" if view.absent else "spec.selector selects no VM"
        return _report(view, now, status, ("False", "SourceDoesNotExist", text), history, told=told, again=LOOK_SECONDS)
    if any(run_name(schedule, name, number) in view.taken for name in free):
        # A name that somebody else has is passed over.
        skipped = msgspec.structs.replace(status, last_sequence=number)
        return _report(view, now, skipped, _state(view, status), history, told=told, again=0.0)
    turn = times.take(due, now)
    missed = [Told("Warning", "BackupsMissed", f"{turn.missed} were due while nobody made them")] if turn.missed else []
    begun = msgspec.structs.replace(
        status,
        last_sequence=number,
        last_schedule_time=rfc3339(turn.due),
        next_schedule_time=rfc3339(turn.following),
    )
    runs = [Create(make_run(schedule, name, number)) for name in free]
    state = _state(view, begun)
    return _report(view, now, begun, state, (*history, *runs), told=(*told, *missed), again=LOOK_SECONDS)


def _plan_upkeep(
    view: ScheduleView, now: datetime, status: BackupScheduleStatus, *, has_open: bool
) -> tuple[BackupScheduleStatus, list[SnapshotAction]]:
    """Between two rounds: old backups go, and then a part of the repository is read back; one task at a time."""
    schedule = view.schedule
    keep, last = schedule.spec.keep, status.last_sequence or 0
    verified, is_due = _next_time(schedule.spec.verify_every, status.next_verify_time, now)
    tested, is_test_due = _next_time(schedule.spec.test_every, status.next_test_time, now)
    status = msgspec.structs.replace(status, next_verify_time=verified, next_test_time=tested)
    has_open = has_open or not all(each.is_final for each in view.tasks) or not all(t.is_final for t in view.tests)
    if has_open or not view.has_repository:
        return status, []
    done = status.pruned_sequence or 0
    succeeded = any(each.status.phase == "Succeeded" and sequence_of(each.metadata) > done for each in view.runs)
    if keep is not None and not keep.is_empty and last > done and succeeded and view.vms:
        status = msgspec.structs.replace(status, pruned_sequence=last)
        return status, [Create(make_prune(schedule, view.vms, last))]
    if is_due:
        due = parse_rfc3339(status.next_verify_time or rfc3339(now))
        following = _following(schedule.spec.verify_every, due, now)
        return msgspec.structs.replace(status, next_verify_time=following), [
            Create(make_verification(schedule, due, last))
        ]
    if is_test_due and (chosen := _choose_tested(status)) is not None:
        due = parse_rfc3339(status.next_test_time or rfc3339(now))
        following = _following(schedule.spec.test_every, due, now)
        status = msgspec.structs.replace(status, next_test_time=following, last_tested_vm=chosen.name)
        return status, [Create(make_test(schedule, chosen.name, chosen.last_backup_id, due, last))]
    return status, []


def _choose_tested(status: BackupScheduleStatus) -> ScheduledVm | None:
    """The VM after the one that was tested last, of those with a backup."""
    known = sorted((each for each in status.vms if each.last_backup_id), key=lambda each: each.name)
    return next((each for each in known if each.name > status.last_tested_vm), known[0] if known else None)


def _following(every: str, due: datetime, now: datetime) -> str:
    return rfc3339(Every(timedelta(seconds=parse_duration(every))).take(due, now).following)


def _next_time(given: str, told: str | None, now: datetime) -> tuple[str | None, bool]:
    """The time of what is done besides rounds, and whether it has come; None where it never is."""
    if not given:
        return None, False
    every = timedelta(seconds=parse_duration(given))
    # Neither a clock that has gone back nor a shorter time puts it off by more than one turn.
    due = now + every if told is None else min(parse_rfc3339(told), now + every)
    return rfc3339(due), due <= now


def _state(view: ScheduleView, status: BackupScheduleStatus, *, is_due: bool = False) -> _State:
    outcome = describe_outcome(status)
    if outcome[0] == "False":
        return outcome
    last = status.last_sequence or 0
    late = [each for each in view.runs if not each.is_final and (is_due or sequence_of(each.metadata) < last)]
    if late:
        name = min(late, key=lambda each: (sequence_of(each.metadata), each.metadata.name)).metadata.name
        return ("False", "Late", f"backup {name} is not complete, and the next one is due")
    if view.too_many:
        return ("False", "TooManyVMs", f"{view.too_many} VMs more are selected than one schedule takes: make another")
    if view.absent:
        return ("False", "SourceDoesNotExist", f"VM {view.absent[0]} does not exist")
    return outcome


def _report(
    view: ScheduleView,
    now: datetime,
    status: BackupScheduleStatus,
    state: _State,
    actions: Sequence[SnapshotAction] = (),
    *,
    told: Sequence[Told] = (),
    again: float | None = None,
) -> SnapshotPlan:
    """Do something, and write the status where it is another one."""
    old = view.schedule.status
    value, reason, message = state[0], state[1], state[2][:_LONGEST]
    before = condition(old.conditions, "Ready")
    states = old.conditions
    if before is None or (before.status, before.reason, before.message) != (value, reason, message):
        states = with_condition(
            old.conditions, Condition(type="Ready", status=value, reason=reason, message=message), now
        )
    body = merge_difference(encode(old), encode(msgspec.structs.replace(status, conditions=states)))
    writes = (*actions, *([Patch(view.schedule, {"status": body}, "status")] if body else []))
    is_new = value == "False" and reason != "BackupFailed" and (before is None or before.reason != reason)
    return SnapshotPlan(writes, (*told, *([Told("Warning", reason, message)] if is_new else [])), again)
