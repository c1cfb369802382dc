"""Tries one backup after the other.

Run by the controller role. Reads informers, asks :func:`plan_boot_test`, and has `snapshot_writes` do what it says.
"""

from __future__ import annotations

from kvedge.controller.backups.backup_sources import LIMITS, BackupSources, wake_owners
from kvedge.controller.backups.upkeep.boot_test_plan import BootView, plan_boot_test, restore_name
from kvedge.controller.late_work import LateWork
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.types.protection.backup_tests import BackupTest


def make_boot_test_work(sources: BackupSources) -> LateWork:
    """What tries backups; the informers of other kinds are started and stopped by others."""
    return LateWork("backup-tests", (sources.tests,), (sources.restores, sources.vmis), BootTestLoop(sources))


class BootTestLoop:
    """One reconcile loop over all tests; guests are looked at again and again while one boots."""

    def __init__(self, sources: BackupSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._writes = sources.writes()
        self._refusals: dict[str, str] = {}
        self.loop = ReconcileLoop("backup-tests", self.reconcile)
        sources.tests.on_change(self._on_test)
        wake_owners(sources.restores, self.loop, BackupTest.KIND.kind)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one test.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        return self._writes.settle(
            lambda: self._sources.tests.get(*key),
            lambda item: plan_boot_test(self._view(item), self._sources.clock.now()),
            self._refusals,
            LIMITS,
        )

    def _view(self, test: BackupTest) -> BootView:
        sources, namespace, name = self._sources, test.metadata.namespace, restore_name(test)
        return BootView(
            test=test,
            restore=sources.restores.get(namespace, name),
            vmi=sources.vmis.get(namespace, name),
            refusal=self._refusals.pop(test.metadata.uid, ""),
        )

    def _on_test(self, old: BackupTest | None, new: BackupTest | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))
