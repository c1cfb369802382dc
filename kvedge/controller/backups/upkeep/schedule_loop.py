"""Makes backups by schedules.

Run by the controller role. Reads informers, asks :func:`plan_schedule`, and has `snapshot_writes` do what it says.
"""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

from kvedge.controller.backups.backup_sources import BackupSources
from kvedge.controller.backups.upkeep.rounds import run_name
from kvedge.controller.backups.upkeep.schedule_plan import ScheduleView, next_sequence, plan_schedule
from kvedge.controller.late_work import LateWork
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.label_selectors import selector_of
from kvedge.resources.types.protection.backup_schedules import MOST_VMS, SCHEDULE, SCHEDULE_UID, BackupSchedule
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.resources.types.vm import VirtualMachine

log = logging.getLogger(__name__)

_MOST_STEPS: Final = 8
# A clock that is set, and a VM that is selected now, are seen after so long.
_LONGEST_SECONDS: Final = 60.0
_Made: TypeAlias = BackupRun | BackupTask | BackupTest
_OF_SCHEDULE: Final = "backups-of-schedule"


def make_backup_schedule_work(sources: BackupSources) -> LateWork:
    """What makes backups by schedules; the informers of other kinds are started and stopped by others."""
    shared = (sources.vms, sources.runs, sources.repositories, sources.tasks, sources.tests)
    return LateWork("backup-schedules", (sources.schedules,), shared, BackupScheduleLoop(sources))


class BackupScheduleLoop:
    """One reconcile loop over all schedules of backups."""

    def __init__(self, sources: BackupSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._writes = sources.writes()
        # By the schedule's UID: why the server did not take a backup. It is asked again in the next round.
        self._refusals: dict[str, str] = {}
        sources.runs.add_index(_OF_SCHEDULE, _schedule_of)
        sources.tasks.add_index(_OF_SCHEDULE, _schedule_of)
        sources.tests.add_index(_OF_SCHEDULE, _schedule_of)
        self.loop = ReconcileLoop("backup-schedules", self.reconcile)
        sources.schedules.on_change(self._on_schedule)
        sources.runs.on_change(self._on_made)
        sources.tasks.on_change(self._on_made)
        sources.tests.on_change(self._on_made)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one schedule.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        for _ in range(_MOST_STEPS):
            schedule = self._sources.schedules.get(*key)
            if schedule is None:
                return None
            plan = plan_schedule(self._view(schedule), self._sources.clock.now())
            if not plan.actions:
                self._refusals.pop(schedule.metadata.uid, None)
                return None if plan.again_after is None else Again(min(_LONGEST_SECONDS, max(0.0, plan.again_after)))
            refusal, wait = self._writes.carry_out(schedule, plan)
            if refusal:
                self._refusals[schedule.metadata.uid] = refusal
            if wait is not None:
                return Again(wait)
        log.error("a schedule's plan does not settle", extra={"facts": {"schedule": str(key)}})
        return Again(_LONGEST_SECONDS)

    def _view(self, schedule: BackupSchedule) -> ScheduleView:
        meta, sources, spec = schedule.metadata, self._sources, schedule.spec
        at = f"{meta.namespace}/{meta.name}"
        runs = [each for each in sources.runs.find_indexed(_OF_SCHEDULE, at) if _is_of(each, meta.uid)]
        tasks = [each for each in sources.tasks.find_indexed(_OF_SCHEDULE, at) if _is_of(each, meta.uid)]
        vms, absent = self._find_vms(schedule)
        names = [run_name(schedule, vm, next_sequence(schedule, runs)) for vm in vms]
        there = (sources.runs.get(meta.namespace, name) for name in names)
        return ScheduleView(
            schedule=schedule,
            vms=vms[:MOST_VMS],
            absent=absent,
            too_many=max(0, len(vms) - MOST_VMS),
            runs=runs,
            tasks=tasks,
            tests=[each for each in sources.tests.find_indexed(_OF_SCHEDULE, at) if _is_of(each, meta.uid)],
            taken={each.metadata.name for each in there if each is not None and not _is_of(each, meta.uid)},
            has_repository=sources.repositories.get(meta.namespace, spec.repository_name) is not None,
            refusal=self._refusals.get(meta.uid, ""),
        )

    def _find_vms(self, schedule: BackupSchedule) -> tuple[list[str], list[str]]:
        """Names of VMs that are there, sorted, and those that are named and are not."""
        namespace, spec = schedule.metadata.namespace, schedule.spec
        there = {
            each.metadata.name: each.metadata.labels
            for each in self._sources.vms.list()
            if each.metadata.namespace == namespace and each.metadata.deletion_timestamp is None and not _is_tried(each)
        }
        chosen = {name for name in spec.vm_names if name in there}
        if spec.selector is not None:
            selector = selector_of(spec.selector)
            chosen |= {name for name, labels in there.items() if selector.matches(labels)}
        return sorted(chosen), [name for name in spec.vm_names if name not in there]

    def _on_schedule(self, old: BackupSchedule | None, new: BackupSchedule | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_made(self, old: _Made | None, new: _Made | None) -> None:
        item = new or old
        assert item is not None
        for name in _schedule_of(item):
            self.loop.add(Key(*name.split("/", 1)))


def _is_tried(vm: VirtualMachine) -> bool:
    """Whether it only tries a backup: a schedule of all VMs does not mean it."""
    owner = vm.metadata.controller_reference()
    return owner is not None and owner.kind == BackupRestore.KIND.kind


def _schedule_of(item: _Made) -> tuple[str, ...]:
    name = item.metadata.labels.get(SCHEDULE)
    return (f"{item.metadata.namespace}/{name}",) if name else ()


def _is_of(item: _Made, uid: str) -> bool:
    return item.metadata.labels.get(SCHEDULE_UID) == uid
