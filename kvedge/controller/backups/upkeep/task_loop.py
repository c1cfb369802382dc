"""Brings one errand in a repository of backups after the other to its end.

Run by the controller role. Reads informers, fetches a list from the worker that has read it, asks :func:`plan_task`,
and has `snapshot_writes` do what it says.
"""

from __future__ import annotations

import secrets
from typing import Final

from kvedge.controller.backups.backup_sources import (
    LIMITS,
    BackupSources,
    find_stranger,
    find_worker,
    read_result,
    wake_owners,
)
from kvedge.controller.backups.upkeep.prune_targets import find_targets
from kvedge.controller.backups.upkeep.task_plan import MODES, TaskView, find_task_rival, plan_task
from kvedge.controller.late_work import LateWork
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.types.protection.backup_job import BackupCatalog
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun

_IN: Final = "backup-tasks-by-repository"


def make_task_work(sources: BackupSources) -> LateWork:
    """What works in repositories; the informers of other kinds are started and stopped by others."""
    shared = (sources.vms, sources.runs, sources.restores, sources.repositories, sources.workers)
    return LateWork("backup-tasks", (sources.tasks,), shared, TaskLoop(sources))


class TaskLoop:
    """One reconcile loop over all tasks; one worker, so that of two tasks one sees that the other goes first."""

    def __init__(self, sources: BackupSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._tasks = sources.tasks
        self._writes = sources.writes()
        self._refusals: dict[str, str] = {}
        self._tasks.add_index(_IN, lambda item: (f"{item.metadata.namespace}/{item.spec.repository_name}",))
        self.loop = ReconcileLoop("backup-tasks", self.reconcile)
        self._tasks.on_change(self._on_task)
        wake_owners(sources.workers, self.loop, BackupTask.KIND.kind)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one task.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        return self._writes.settle(
            lambda: self._tasks.get(*key),
            lambda item: plan_task(self._view(item), self._sources.clock.now()),
            self._refusals,
            LIMITS,
        )

    def _view(self, task: BackupTask) -> TaskView:
        sources, namespace = self._sources, task.metadata.namespace
        place = task.spec.repository_name
        mode = MODES.get(task.spec.action, "")
        worker = find_worker(sources, task, mode)
        runs = [each for each in sources.runs.list() if each.metadata.namespace == namespace]
        restores = sources.restores.list()
        targets, absent = find_targets(task, sources.vms.get, runs, restores)
        return TaskView(
            task=task,
            repository=sources.repositories.get(namespace, place),
            worker=worker,
            cluster=sources.cluster(),
            targets=targets,
            absent=absent,
            rival=find_task_rival(
                task,
                self._tasks.find_indexed(_IN, f"{namespace}/{place}"),
                [each for each in runs if each.spec.repository_name == place],
                [each for each in restores if _is_from(each, namespace, place)],
            ),
            catalog=read_result(BackupCatalog, worker) if task.spec.action == "List" else None,
            token=secrets.token_hex(16),
            refusal=self._refusals.pop(task.metadata.uid, "") or find_stranger(sources, task, mode),
        )

    def _on_task(self, old: BackupTask | None, new: BackupTask | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        if new is None or new.is_final:
            # Others, also backups, may have waited; those look again by themselves.
            for other in self._tasks.find_indexed(_IN, f"{item.metadata.namespace}/{item.spec.repository_name}"):
                self.loop.add(Key(other.metadata.namespace, other.metadata.name))
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))


def _is_from(item: BackupRestore | BackupRun, namespace: str, place: str) -> bool:
    return item.metadata.namespace == namespace and item.spec.repository_name == place
