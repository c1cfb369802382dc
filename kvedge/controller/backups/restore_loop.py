"""Brings one backup after the other back.

Run by the controller role. Reads informers, fetches the record from the worker that has read it, asks
:func:`plan_restore`, and has `snapshot_writes` do what it says.
"""

from __future__ import annotations

import secrets
from typing import Final

from kvedge.controller.backups.backup_sources import (
    LIMITS,
    BackupSources,
    ask_worker,
    find_exclusive,
    find_stranger,
    find_worker,
    read_result,
    wake_owners,
)
from kvedge.controller.backups.restore_plan import RestoreView, plan_restore
from kvedge.controller.backups.tpm_twins import find_twin
from kvedge.controller.late_work import LateWork
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.types.protection.backup_job import BackupRecord, LiveState
from kvedge.resources.types.protection.backups import BackupRestore
from kvedge.resources.types.vm import VirtualMachine

_BY_TARGET: Final = "restores-of-backups-by-vm"


def make_return_work(sources: BackupSources) -> LateWork:
    """What brings backups back; the informers of other kinds are started and stopped by others."""
    shared = (sources.vms, sources.claims, sources.repositories, sources.workers, sources.tasks)
    return LateWork("backup-restores", (sources.restores,), shared, RestoreLoop(sources))


class RestoreLoop:
    """One reconcile loop over all backups that come back."""

    def __init__(self, sources: BackupSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._restores = sources.restores
        self._writes = sources.writes()
        self._refusals: dict[str, str] = {}
        self._restores.add_index(_BY_TARGET, lambda item: (f"{item.metadata.namespace}/{item.target}",))
        self.loop = ReconcileLoop("backup-restores", self.reconcile)
        self._restores.on_change(self._on_restore)
        wake_owners(sources.workers, self.loop, BackupRestore.KIND.kind)
        sources.vms.on_change(self._on_vm)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one restore.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        return self._writes.settle(
            lambda: self._restores.get(*key),
            lambda item: plan_restore(self._view(item), self._sources.clock.now()),
            self._refusals,
            LIMITS,
        )

    def _view(self, restore: BackupRestore) -> RestoreView:
        sources, meta = self._sources, restore.metadata
        mode = "serve" if restore.spec.live else "restore"
        reader, worker = find_worker(sources, restore, "read"), find_worker(sources, restore, mode)
        record = None if restore.status.content is not None else read_result(BackupRecord, reader)
        names = [each.claim_name for each in restore.status.volumes]
        return RestoreView(
            restore=restore,
            repository=sources.repositories.get(meta.namespace, restore.spec.repository_name),
            vm=sources.vms.get(meta.namespace, target) if (target := restore.target) else None,
            claims={name: claim for name in names if (claim := sources.claims.get(meta.namespace, name))},
            reader=reader,
            worker=worker,
            cluster=sources.cluster(),
            record=record,
            token=secrets.token_hex(16),
            refusal=self._refusals.pop(meta.uid, "") or find_stranger(sources, restore, "read", mode),
            progress=ask_worker(worker),
            busy=find_exclusive(sources, restore),
            live=read_result(LiveState, worker) if restore.spec.live else None,
            twin=""
            if record is None
            else find_twin(restore, record.content, self._restores.list(), sources.vms.list()),
        )

    def _on_restore(self, old: BackupRestore | None, new: BackupRestore | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        item = new or old
        assert item is not None
        for restore in self._restores.find_indexed(_BY_TARGET, f"{item.metadata.namespace}/{item.metadata.name}"):
            self.loop.add(Key(restore.metadata.namespace, restore.metadata.name))
