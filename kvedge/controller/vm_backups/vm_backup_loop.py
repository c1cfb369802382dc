"""Brings one backup of a running VM after the other to its end.

Run by the controller role. Reads informers, asks :func:`plan_vm_backup`, and has `snapshot_writes` do what it says. One
worker, so that of two backups of a VM one sees that the other goes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from kvedge.controller.late_work import LateWork
from kvedge.controller.snapshots.snapshot_writes import PassLimits, SnapshotWrites
from kvedge.controller.vm_backups.served_backup import export_name
from kvedge.controller.vm_backups.vm_backup_order import ORDER_PREFIX, is_asked, order_id, withdraw
from kvedge.controller.vm_backups.vm_backup_plan import plan_vm_backup
from kvedge.controller.vm_backups.vm_backup_view import VmBackupView
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup, VirtualMachineBackupTracker
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

_LIMITS: Final = PassLimits(12, 15.0)
_OF_SOURCE: Final = "vm-backups-of-source"
_OF_CLAIM: Final = "vm-backups-by-claim"
_BY_ORDER: Final = "vmis-by-backup"
_OF_VM: Final = "backup-trackers-of-vm"


class VmBackupSources(Struct, frozen=True):
    """The informers and writers that the loop works with."""

    client: KubeClient
    backups: Informer[VirtualMachineBackup]
    trackers: Informer[VirtualMachineBackupTracker]
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    claims: Informer[PersistentVolumeClaim]
    exports: Informer[VirtualMachineExport]
    events: EventRecorder
    clock: Clock


def make_vm_backup_work(sources: VmBackupSources) -> LateWork:
    """What takes backups of running VMs; the informers of other kinds are started and stopped by others."""
    shared = (sources.vms, sources.vmis, sources.claims, sources.exports)
    return LateWork("vm-backups", (sources.backups, sources.trackers), shared, VmBackupLoop(sources))


class VmBackupLoop:
    """One reconcile loop over all backups."""

    def __init__(self, sources: VmBackupSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._backups, self._trackers = sources.backups, sources.trackers
        informers: dict[type, Informer[Any]] = {
            VirtualMachineBackup: sources.backups,
            VirtualMachineBackupTracker: sources.trackers,
            VirtualMachineInstance: sources.vmis,
            VirtualMachineExport: sources.exports,
        }
        self._writes = SnapshotWrites(sources.client, sources.events, informers)
        self._refusals: dict[str, str] = {}
        self._backups.add_index(_OF_SOURCE, _source_of)
        self._backups.add_index(_OF_CLAIM, _claim_of)
        sources.vmis.add_index(_BY_ORDER, _order_of)
        self._trackers.add_index(_OF_VM, lambda item: (f"{item.metadata.namespace}/{item.spec.source.name}",))
        self.loop = ReconcileLoop("vm-backups", self.reconcile)
        self._backups.on_change(self._on_backup)
        self._trackers.on_change(self._on_tracker)
        sources.vms.on_change(self._on_vm)
        sources.vmis.on_change(self._on_vmi)
        sources.claims.on_change(self._on_claim)
        sources.exports.on_change(self._on_export)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one backup.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        self._withdraw_orphans(key)
        return self._writes.settle(
            lambda: self._backups.get(*key),
            lambda backup: plan_vm_backup(self._view(backup), self._sources.clock.now()),
            self._refusals,
            _LIMITS,
        )

    def _withdraw_orphans(self, key: Key) -> None:
        """A backup that somebody has removed with its finalizer lets go of its VM."""
        backup = self._backups.get(*key)
        for vmi in self._sources.vmis.find_indexed(_BY_ORDER, f"{key.namespace}/{key.name}"):
            order = vmi.status.disk_copy
            if order is None or (backup is not None and order.name == order_id(backup)):
                continue
            meta = ObjectMeta(name=key.name, namespace=key.namespace, uid=order.name.removeprefix(ORDER_PREFIX))
            for write in withdraw(VmBackupView(VirtualMachineBackup(metadata=meta), vmi=vmi)):
                self._writes.patch(write)

    def _view(self, backup: VirtualMachineBackup) -> VmBackupView:
        sources, namespace = self._sources, backup.metadata.namespace
        source = backup.spec.source
        tracker = self._trackers.get(namespace, source.name) if backup.by_tracker else None
        vm = source.name if not backup.by_tracker else "" if tracker is None else tracker.spec.source.name
        return VmBackupView(
            backup=backup,
            tracker=tracker,
            vm=sources.vms.get(namespace, vm) if vm else None,
            vmi=sources.vmis.get(namespace, vm) if vm else None,
            claim=sources.claims.get(namespace, backup.spec.pvc_name or ""),
            export=self._find_export(backup),
            rival=self._find_rival(backup, vm),
            checkpoints=tuple(each.checkpoint for each in self._trackers_of(namespace, vm) if each.checkpoint),
            refusal=self._refusals.get(backup.metadata.uid, ""),
        )

    def _find_export(self, backup: VirtualMachineBackup) -> VirtualMachineExport | None:
        found = self._sources.exports.get(backup.metadata.namespace, export_name(backup))
        owner = None if found is None else found.metadata.controller_reference()
        return found if owner is not None and owner.uid == backup.metadata.uid else None

    def _find_rival(self, backup: VirtualMachineBackup, vm: str) -> str:
        """Another backup of the same VM that is under way, or older."""
        if not vm or is_asked(self._sources.vmis.get(backup.metadata.namespace, vm), backup):
            return ""
        mine = (backup.metadata.creation_timestamp or "", backup.metadata.name)
        for other in self._backups_of(backup.metadata.namespace, vm):
            theirs = (other.metadata.creation_timestamp or "", other.metadata.name)
            if other.metadata.uid != backup.metadata.uid and not other.is_final and theirs < mine:
                return other.metadata.name
        return ""

    def _trackers_of(self, namespace: str, vm: str) -> list[VirtualMachineBackupTracker]:
        return list(self._trackers.find_indexed(_OF_VM, f"{namespace}/{vm}")) if vm else []

    def _backups_of(self, namespace: str, vm: str) -> Iterator[VirtualMachineBackup]:
        yield from self._backups.find_indexed(_OF_SOURCE, f"{namespace}/{VirtualMachine.KIND.kind}/{vm}")
        kind = VirtualMachineBackupTracker.KIND.kind
        for tracker in self._trackers_of(namespace, vm):
            yield from self._backups.find_indexed(_OF_SOURCE, f"{namespace}/{kind}/{tracker.metadata.name}")

    def _look_at(self, namespace: str, vm: str) -> None:
        for each in self._backups_of(namespace, vm):
            self.loop.add(Key(namespace, each.metadata.name))

    def _on_backup(self, old: VirtualMachineBackup | None, new: VirtualMachineBackup | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        namespace = item.metadata.namespace
        self.loop.add(Key(namespace, item.metadata.name))
        if new is None or new.is_final:
            # Others of the VM may have waited.
            tracker = self._trackers.get(namespace, item.spec.source.name) if item.by_tracker else None
            self._look_at(namespace, item.spec.source.name if tracker is None else tracker.spec.source.name)

    def _on_tracker(self, old: VirtualMachineBackupTracker | None, new: VirtualMachineBackupTracker | None) -> None:
        item = new or old
        assert item is not None
        self._look_at(item.metadata.namespace, item.spec.source.name)

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        item = new or old
        assert item is not None
        if old is None or new is None or old.status != new.status:
            self._look_at(item.metadata.namespace, item.metadata.name)

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        if old is not None and new is not None and _matters(old) == _matters(new):
            return
        order = item.status.disk_copy
        if order is not None and order.backup is not None:
            self.loop.add(Key(item.metadata.namespace, order.backup.prefix))
        self._look_at(item.metadata.namespace, item.metadata.name)

    def _on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        item = new or old
        assert item is not None
        for each in self._backups.find_indexed(_OF_CLAIM, f"{item.metadata.namespace}/{item.metadata.name}"):
            if not each.is_final:
                self.loop.add(Key(item.metadata.namespace, each.metadata.name))

    def _on_export(self, old: VirtualMachineExport | None, new: VirtualMachineExport | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        if owner is not None and owner.kind == VirtualMachineBackup.KIND.kind:
            self.loop.add(Key(item.metadata.namespace, owner.name))


def _matters(vmi: VirtualMachineInstance) -> tuple[object, ...]:
    """What backups see of a VMI."""
    status = vmi.status
    tracking = status.changed_block_tracking
    moves = status.migration_state, status.evacuation_node_name
    return status.phase, vmi.spec.volumes, vmi.spec.utility_volumes, status.disk_copy, tracking, moves, vmi.metadata.uid


def _order_of(vmi: VirtualMachineInstance) -> tuple[str, ...]:
    order = vmi.status.disk_copy
    if order is None or order.backup is None:
        return ()
    return (f"{vmi.metadata.namespace}/{order.backup.prefix}",)


def _source_of(backup: VirtualMachineBackup) -> tuple[str, ...]:
    source = backup.spec.source
    return (f"{backup.metadata.namespace}/{source.kind}/{source.name}",)


def _claim_of(backup: VirtualMachineBackup) -> tuple[str, ...]:
    return (f"{backup.metadata.namespace}/{backup.spec.pvc_name}",) if backup.spec.pvc_name else ()
