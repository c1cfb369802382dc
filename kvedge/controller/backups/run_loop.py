"""Brings one backup after the other to its end.

Run by the controller role. Reads informers, asks :func:`plan_run`, and has `snapshot_writes` do what it says. One
worker, so that of two backups of a VM one sees that the other goes first.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.backups.backup_sources import (
    LIMITS,
    BackupSources,
    ask_worker,
    find_exclusive,
    find_stranger,
    find_worker,
    wake_owners,
)
from kvedge.controller.backups.run_plan import RivalRun, RunView, find_rival, plan_run, snapshot_name
from kvedge.controller.late_work import LateWork
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.types.protection.backups import BackupRun
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot

_OF_VM: Final = "backups-of-vm"
_BY_SNAPSHOT: Final = "backups-by-snapshot"
_INTO: Final = "backups-by-repository"


def make_run_work(sources: BackupSources) -> LateWork:
    """What takes backups, with the informers that both loops need; others are started and stopped elsewhere."""
    shared = (sources.vms, sources.claims, sources.snapshots, sources.contents)
    own = (sources.runs, sources.repositories, sources.workers)
    return LateWork("backups", own, (*shared, sources.tasks), RunLoop(sources))


class RunLoop:
    """One reconcile loop over all backups."""

    def __init__(self, sources: BackupSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._runs, self._snapshots = sources.runs, sources.snapshots
        self._writes = sources.writes()
        # By the run's UID: why the server did not take what was to be made.
        self._refusals: dict[str, str] = {}
        self._runs.add_index(_OF_VM, lambda item: (f"{item.metadata.namespace}/{item.spec.vm_name}",))
        self._runs.add_index(_BY_SNAPSHOT, lambda item: (f"{item.metadata.namespace}/{snapshot_name(item)}",))
        self._runs.add_index(_INTO, lambda item: (f"{item.metadata.namespace}/{item.spec.repository_name}",))
        self.loop = ReconcileLoop("backups", self.reconcile)
        self._runs.on_change(self._on_run)
        self._snapshots.on_change(self._on_snapshot)
        wake_owners(sources.workers, self.loop, BackupRun.KIND.kind)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one backup.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        return self._writes.settle(
            lambda: self._runs.get(*key),
            lambda item: plan_run(self._view(item), self._sources.clock.now()),
            self._refusals,
            LIMITS,
        )

    def _view(self, run: BackupRun) -> RunView:
        sources, namespace = self._sources, run.metadata.namespace
        snapshot = self._snapshots.get(namespace, snapshot_name(run))
        held = "" if snapshot is None else snapshot.status.virtual_machine_snapshot_content_name or ""
        content = sources.contents.get(namespace, held) if held else None
        names = [] if content is None else [each.volume_snapshot_name or "" for each in content.spec.volume_backups]
        worker = find_worker(sources, run, "backup")
        return RunView(
            run=run,
            repository=sources.repositories.get(namespace, run.spec.repository_name),
            vm=sources.vms.get(namespace, run.spec.vm_name),
            snapshot=snapshot,
            content=content,
            claims={name: claim for name in names if name and (claim := sources.claims.get(namespace, name))},
            worker=worker,
            cluster=sources.cluster(),
            rival=self._find_rival(run),
            refusal=self._refusals.pop(run.metadata.uid, "") or find_stranger(sources, run, "backup"),
            progress=ask_worker(worker),
            is_known=self._is_known(run),
            busy=find_exclusive(sources, run),
        )

    def _is_known(self, run: BackupRun) -> bool:
        """Whether a backup has gone into the run's repository before."""
        place = f"{run.metadata.namespace}/{run.spec.repository_name}"
        return any(other.status.phase == "Succeeded" for other in self._runs.find_indexed(_INTO, place))

    def _find_rival(self, run: BackupRun) -> str:
        """Another backup of the same VM that goes first."""
        sources, namespace = self._sources, run.metadata.namespace
        others = [
            RivalRun(other, has_place=sources.repositories.get(namespace, other.spec.repository_name) is not None)
            for other in self._runs.find_indexed(_OF_VM, f"{namespace}/{run.spec.vm_name}")
        ]
        return find_rival(run, others)

    def _on_run(self, old: BackupRun | None, new: BackupRun | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        if new is None or new.is_final:
            # Others of the VM may have waited.
            for other in self._runs.find_indexed(_OF_VM, f"{item.metadata.namespace}/{item.spec.vm_name}"):
                self.loop.add(Key(other.metadata.namespace, other.metadata.name))
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_snapshot(self, old: VirtualMachineSnapshot | None, new: VirtualMachineSnapshot | None) -> None:
        item = new or old
        assert item is not None
        for run in self._runs.find_indexed(_BY_SNAPSHOT, f"{item.metadata.namespace}/{item.metadata.name}"):
            self.loop.add(Key(run.metadata.namespace, run.metadata.name))
