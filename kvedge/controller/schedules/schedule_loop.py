"""Takes snapshots by schedules.

Run by the controller role. Reads informers, asks :func:`plan_schedule`, and has `snapshot_writes` do what it says.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.controller.late_work import LateWork
from kvedge.controller.schedules.schedule_plan import ScheduleView, next_name, plan_schedule
from kvedge.controller.snapshots.snapshot_actions import SnapshotPlan
from kvedge.controller.snapshots.snapshot_loop import SnapshotSources
from kvedge.controller.snapshots.snapshot_writes import PassLimits
from kvedge.kube.informer import Informer
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.schedule_names import SCHEDULE, SCHEDULE_UID
from kvedge.resources.types.protection.backups import BackupRun
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.schedules import VirtualMachineSnapshotSchedule
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.vm import VirtualMachine

# A schedule counts refusals itself, and asks again when the next snapshot is due.
_LIMITS: Final = PassLimits(8, None)
# A clock that is set is seen after so long.
_LONGEST_SECONDS: Final = 60.0
_OF_VM: Final = "schedules-of-vm"
_OF_SCHEDULE: Final = "snapshots-of-schedule"


class SnapshotUsers(Struct, frozen=True):
    """What works with snapshots besides restores: one of theirs must not go."""

    clones: Informer[VirtualMachineClone]
    runs: Informer[BackupRun]
    exports: Informer[VirtualMachineExport]

    def find_used(self, namespace: str) -> set[str]:
        """The names of snapshots of a namespace that somebody works with."""
        clones = (each.spec.source for each in self.clones.list() if _is_open(each, namespace))
        runs = (each.spec.snapshot_name for each in self.runs.list() if _is_open(each, namespace))
        exports = (each.spec.source for each in self.exports.list() if each.metadata.namespace == namespace)
        return {source.name for source in clones if source is not None} | set(runs) | {each.name for each in exports}


def _is_open(item: VirtualMachineClone | BackupRun, namespace: str) -> bool:
    return item.metadata.namespace == namespace and not item.is_final


def make_schedule_work(
    sources: SnapshotSources,
    schedules: Informer[VirtualMachineSnapshotSchedule],
    users: SnapshotUsers,
) -> LateWork:
    """What takes snapshots by schedules. The informers of other kinds are started and stopped by others."""
    shared = (sources.snapshots, sources.restores, sources.vms, users.clones, users.runs, users.exports)
    return LateWork("snapshot-schedules", (schedules,), shared, ScheduleLoop(sources, schedules, users))


class ScheduleLoop:
    """One reconcile loop over all schedules."""

    def __init__(
        self,
        sources: SnapshotSources,
        schedules: Informer[VirtualMachineSnapshotSchedule],
        users: SnapshotUsers,
    ) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._schedules, self._users = schedules, users
        self._writes = sources.writes({VirtualMachineSnapshotSchedule: schedules})
        # By the schedule's UID: why the server did not take the snapshot. It is asked again when the next one is due.
        self._refusals: dict[str, str] = {}
        schedules.add_index(_OF_VM, lambda item: (f"{item.metadata.namespace}/{item.spec.source.name}",))
        sources.snapshots.add_index(_OF_SCHEDULE, _schedule_of)
        self.loop = ReconcileLoop("snapshot-schedules", self.reconcile)
        schedules.on_change(self._on_schedule)
        sources.snapshots.on_change(self._on_snapshot)
        sources.vms.on_change(self._on_vm)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one schedule.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        return self._writes.settle(lambda: self._schedules.get(*key), self._plan, self._refusals, _LIMITS)

    def _plan(self, schedule: VirtualMachineSnapshotSchedule) -> SnapshotPlan:
        plan = plan_schedule(self._view(schedule), self._sources.clock.now())
        again = plan.again_after
        return plan if again is None else replace(plan, again_after=min(_LONGEST_SECONDS, again))

    def _view(self, schedule: VirtualMachineSnapshotSchedule) -> ScheduleView:
        meta, sources = schedule.metadata, self._sources
        taken = [
            each
            for each in sources.snapshots.find_indexed(_OF_SCHEDULE, f"{meta.namespace}/{meta.name}")
            if each.metadata.labels.get(SCHEDULE_UID) == meta.uid
        ]
        name = next_name(schedule, taken)
        stranger = sources.snapshots.get(meta.namespace, name)
        in_use = {
            each.spec.virtual_machine_snapshot_name
            for each in sources.restores.list()
            if not each.is_final and each.metadata.namespace == meta.namespace
        } | self._users.find_used(meta.namespace)
        return ScheduleView(
            schedule=schedule,
            vm=sources.vms.get(meta.namespace, schedule.spec.source.name),
            snapshots=taken,
            in_use=in_use,
            stranger=stranger is not None and stranger.metadata.labels.get(SCHEDULE_UID) != meta.uid,
            refusal=self._refusals.get(meta.uid, ""),
        )

    def _on_schedule(
        self, old: VirtualMachineSnapshotSchedule | None, new: VirtualMachineSnapshotSchedule | None
    ) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_snapshot(self, old: VirtualMachineSnapshot | None, new: VirtualMachineSnapshot | None) -> None:
        item = new or old
        assert item is not None
        for name in _schedule_of(item):
            self.loop.add(Key(*name.split("/", 1)))

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        item = new or old
        assert item is not None
        if old is None or new is None or _lock_of(old) != _lock_of(new):
            for each in self._schedules.find_indexed(_OF_VM, f"{item.metadata.namespace}/{item.metadata.name}"):
                self.loop.add(Key(each.metadata.namespace, each.metadata.name))


def _schedule_of(snapshot: VirtualMachineSnapshot) -> tuple[str, ...]:
    name = snapshot.metadata.labels.get(SCHEDULE)
    return (f"{snapshot.metadata.namespace}/{name}",) if name else ()


def _lock_of(vm: VirtualMachine) -> tuple[str | None, str | None]:
    return vm.status.snapshot_in_progress, vm.status.restore_in_progress
