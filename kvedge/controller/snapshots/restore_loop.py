"""Brings one restore after the other to its end.

Run by the controller role. Reads informers, asks :func:`plan_restore`, and has `snapshot_writes` do what it says. One
worker, so that of two restores of a VM one sees that the other has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kvedge.controller.datavolumes.claim_plan import binds_late
from kvedge.controller.datavolumes.data_volume_status import PENDING_POPULATION
from kvedge.controller.late_work import LateWork
from kvedge.controller.snapshots.in_place_record import in_place_volumes, is_of_claims, read_record
from kvedge.controller.snapshots.restore_plan import plan_restore
from kvedge.controller.snapshots.restore_report import LOOK_SECONDS, wait_for
from kvedge.controller.snapshots.restored_vm import fill_name
from kvedge.controller.snapshots.snapshot_actions import Patch
from kvedge.controller.snapshots.snapshot_loop import SnapshotSources
from kvedge.controller.snapshots.snapshot_sights import find_driver_snapshots
from kvedge.controller.snapshots.snapshot_view import RestoreView
from kvedge.controller.snapshots.snapshot_writes import PassLimits
from kvedge.controller.vm.create_refusal import is_passing, is_unjudged
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.snapshot_names import RESTORE_NAME
from kvedge.resources.disks.state_claims import STATE_CLAIM, state_claim_name
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolume, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.saved_memory import resume_claim
from kvedge.runtime.clock import seconds_since

_LIMITS: Final = PassLimits(16, 5.0)
# A webhook's Pod that is moved, or whose node restarts, is back by then.
_DELETION_PATIENCE: Final = 120.0
_OF_VM: Final = "restores-of-vm"
_OF_SNAPSHOT: Final = "restores-of-snapshot"
_LOCKED_BY: Final = "vms-by-restore"


def make_restore_work(sources: SnapshotSources) -> LateWork:
    """What puts snapshots back. The informers of other kinds are started and stopped by others."""
    shared = (
        sources.snapshots, sources.contents, sources.vms, sources.vmis, sources.claims, sources.data_volumes,
    )  # fmt: skip
    return LateWork("restores", (sources.restores,), shared, RestoreLoop(sources))


class RestoreLoop:
    """One reconcile loop over all restores."""

    def __init__(self, sources: SnapshotSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._restores, self._vms = sources.restores, sources.vms
        self._writes = sources.writes()
        # By the restore's UID: why the server did not take what was to be written.
        self._refusals: dict[str, str] = {}
        self._restores.add_index(_OF_VM, lambda item: (f"{item.metadata.namespace}/{item.spec.target.name}",))
        self._restores.add_index(
            _OF_SNAPSHOT, lambda item: (f"{item.metadata.namespace}/{item.spec.virtual_machine_snapshot_name}",)
        )
        self._vms.add_index(_LOCKED_BY, _lock_of)
        self.loop = ReconcileLoop("restores", self.reconcile)
        self._restores.on_change(self._on_restore)
        self._vms.on_change(self._on_vm)
        sources.vmis.on_change(self._on_vmi)
        sources.snapshots.on_change(self._on_snapshot)
        sources.data_volumes.on_change(self._on_data_volume)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one restore.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        if self._restores.get(*key) is None:
            self._unlock_orphans(key)
            return None
        try:
            return self._writes.settle(
                lambda: self._restores.get(*key),
                lambda item: plan_restore(self._view(item), self._sources.clock.now()),
                self._refusals,
                _LIMITS,
            )
        except KubeError as error:
            restore = self._restores.get(*key)
            if restore is None or restore.is_final or is_passing(error) or not is_unjudged(error):
                raise
            # A webhook that cannot be called: nothing is refused, and its user has to know what the restore waits for.
            now = self._sources.clock.now()
            self._writes.carry_out(restore, wait_for(self._view(restore), now, str(error)))
            deleted = seconds_since(restore.metadata.deletion_timestamp, now)
            if deleted is not None and deleted > _DELETION_PATIENCE:
                # A deletion has an end: the next pass ends it as one whose VM is refused.
                self._refusals[restore.metadata.uid] = str(error)
            return Again(LOOK_SECONDS)

    def _view(self, restore: VirtualMachineRestore) -> RestoreView:
        namespace, target = restore.metadata.namespace, restore.spec.target.name
        sources = self._sources
        snapshot = sources.snapshots.get(namespace, restore.spec.virtual_machine_snapshot_name)
        named = None if snapshot is None else snapshot.status.virtual_machine_snapshot_content_name
        content = sources.contents.get(namespace, named) if named else None
        vm = self._vms.get(namespace, target)
        volumes = [fill_name(restore, each) for each in restore.status.restores]
        copies = [each.volume_snapshot_name for each in restore.status.restores]
        old = {each.metadata.name for each in vm.spec.data_volume_templates} if vm is not None else set()
        old |= {*restore.status.deleted_data_volumes}
        if vm is not None and (state := vm.metadata.annotations.get(STATE_CLAIM)):
            old.add(state)
        # An older claim of the state is perhaps no DataVolume's.
        seen = {*copies, state_claim_name(target), *old}
        filled = self._data_volumes(namespace, volumes)
        return RestoreView(
            restore=restore,
            snapshot=snapshot,
            content=content,
            vm=vm,
            vmi=sources.vmis.get(namespace, target),
            claims={name: found for name in seen if (found := sources.claims.get(namespace, name))},
            volumes=filled,
            old=self._data_volumes(namespace, old),
            refusal=self._refusals.get(restore.metadata.uid, ""),
            copies=self._data_volumes(namespace, copies),
            driver_snapshots=find_driver_snapshots(sources.driver_snapshots, content),
            binds_late={name for name, found in filled.items() if self._binds_late(found)},
            **self._in_place(restore),
        )

    def _binds_late(self, volume: DataVolume) -> bool:
        """Whether a driver fills a claim once a Pod uses it, and not before."""
        if volume.status.phase != PENDING_POPULATION:
            return False
        target = volume.spec.pvc
        try:
            found = self._sources.client.get(StorageClass, "", (target and target.storage_class_name) or "")
        except NotFound:
            return False
        return binds_late(found)

    def _in_place(self, restore: VirtualMachineRestore) -> dict[str, Any]:
        """What a restore in place sees besides; volumes are not watched, and read each time."""
        sources, namespace = self._sources, restore.metadata.namespace
        volumes, record = in_place_volumes(restore), read_record(restore)
        # One that has failed gives volumes back their policies.
        if not volumes or restore.status.complete or (restore.is_final and not record):
            return {}
        names = [each.persistent_volume_claim for each in volumes]
        targets = {name: found for name in names if (found := sources.claims.get(namespace, name))}
        fillers = [fill_name(restore, each) for each in volumes]
        staged = {name: found for name in fillers if (found := sources.claims.get(namespace, name))}
        wanted = {name for each in record for name in (each.new_volume, each.old_volume) if name}
        if not record and len(staged) == len(volumes):
            wanted = {each.spec.volume_name for each in (*targets.values(), *staged.values()) if each.spec.volume_name}
        # Also Pods that nobody here watches, such as those of exports, keep a claim.
        pods = sources.client.list(Pod, namespace) if wanted else []
        return {
            "targets": targets,
            "target_volumes": self._data_volumes(namespace, names),
            "staged": staged,
            "places": {
                name: place
                for name in wanted
                if (place := self._read_place(name)) and is_of_claims(place, namespace, {*names, *fillers})
            },
            "users": {name: user for name in names if (user := self._user_of(namespace, name, pods))},
        }

    def _read_place(self, name: str) -> PersistentVolume | None:
        try:
            return self._sources.client.get(PersistentVolume, "", name)
        except NotFound:
            return None

    def _user_of(self, namespace: str, claim: str, pods: Sequence[Pod]) -> str:
        """A Pod or a VMI that has a claim; empty when none has."""
        for pod in pods:
            sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
            if not has_ended(pod) and any(each is not None and each.claim_name == claim for each in sources):
                return f"Pod {pod.metadata.name}"
        for vmi in self._sources.vmis.list():
            named = {name for _, name in claims(vmi.spec.volumes)} if vmi.metadata.namespace == namespace else ()
            if claim in named and not vmi.is_final:
                return f"VirtualMachineInstance {vmi.metadata.name}"
        return ""

    def _data_volumes(self, namespace: str, names: Iterable[str]) -> dict[str, DataVolume]:
        return {name: found for name in names if (found := self._sources.data_volumes.get(namespace, name))}

    def _unlock_orphans(self, key: Key) -> None:
        """A restore that somebody has removed with its finalizer lets go of its VM."""
        for vm in self._vms.find_indexed(_LOCKED_BY, f"{key.namespace}/{key.name}"):
            self._writes.patch(Patch(vm, {"status": {"restoreInProgress": None}}, "status"))

    def _on_restore(self, old: VirtualMachineRestore | None, new: VirtualMachineRestore | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        item = new or old
        assert item is not None
        self._look_at(_OF_VM, item.metadata.namespace, item.metadata.name)
        for name in _lock_of(item):
            self.loop.add(Key(*name.split("/", 1)))
        if (
            old is not None
            and new is not None
            and resume_claim(old.metadata.annotations)
            and not resume_claim(new.metadata.annotations)
        ):
            # Its memory was used.
            for each in self._restores.find_indexed(_OF_VM, f"{item.metadata.namespace}/{item.metadata.name}"):
                self.loop.add(Key(item.metadata.namespace, each.metadata.name))

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        if old is None or new is None:
            self._look_at(_OF_VM, item.metadata.namespace, item.metadata.name)

    def _on_snapshot(self, old: VirtualMachineSnapshot | None, new: VirtualMachineSnapshot | None) -> None:
        item = new or old
        assert item is not None
        self._look_at(_OF_SNAPSHOT, item.metadata.namespace, item.metadata.name)

    def _on_data_volume(self, old: DataVolume | None, new: DataVolume | None) -> None:
        item = new or old
        assert item is not None
        name = item.metadata.annotations.get(RESTORE_NAME)
        if name:
            self.loop.add(Key(item.metadata.namespace, name))

    def _look_at(self, index: str, namespace: str, name: str) -> None:
        for each in self._restores.find_indexed(index, f"{namespace}/{name}"):
            if not each.is_final:
                self.loop.add(Key(namespace, each.metadata.name))


def _lock_of(vm: VirtualMachine) -> tuple[str, ...]:
    name = vm.status.restore_in_progress
    return (f"{vm.metadata.namespace}/{name}",) if name else ()
