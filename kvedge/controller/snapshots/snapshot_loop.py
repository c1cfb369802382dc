"""Brings one snapshot after the other to its end, and keeps its status true.

Run by the controller role. Reads informers, asks :func:`plan_snapshot`, and has `snapshot_writes` do what it says. One
worker, so that of two snapshots of a VM one sees that the other has it; guests are frozen and thawed by workers of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from kvedge.controller.late_work import LateWork
from kvedge.controller.snapshots.content_plan import claim_names, copy_names
from kvedge.controller.snapshots.guest_freezes import GuestFreezes
from kvedge.controller.snapshots.live_copies import withdraw
from kvedge.controller.snapshots.snapshot_plan import plan_letting_go, plan_snapshot
from kvedge.controller.snapshots.snapshot_sights import (
    find_classes,
    find_driver_snapshots,
    find_revision,
    find_types,
    find_unfilled,
)
from kvedge.controller.snapshots.snapshot_view import SnapshotView
from kvedge.controller.snapshots.snapshot_writes import PassLimits, SnapshotWrites
from kvedge.controller.snapshots.source_lock import unlock
from kvedge.controller.snapshots.volume_copies import lasting_claims
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.state_claims import state_claim_of
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
)
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import is_paused
from kvedge.runtime.clock import Clock

_LIMITS: Final = PassLimits(12, 5.0)
# The finalizer, and the status.
_UNLOCKING_WRITES: Final = 2
# Whether what a deleted content is kept for has come.
_HELD_SECONDS: Final = 30.0
_OF_VM: Final = "snapshots-of-vm"
_OF_SNAPSHOT: Final = "contents-of-snapshot"
_LOCKED_BY: Final = "vms-by-snapshot"
_BY_CLAIM: Final = "pods-by-claim"


class SnapshotSources(Struct, frozen=True):
    """The informers and writers that both loops work with; `pods` and `attachments` are launchers and theirs.

    Most clusters' storage drivers take no snapshots: the kind of `driver_snapshots` may come later, or never.
    """

    client: KubeClient
    snapshots: Informer[VirtualMachineSnapshot]
    contents: Informer[VirtualMachineSnapshotContent]
    driver_snapshots: Informer[VolumeSnapshot]
    restores: Informer[VirtualMachineRestore]
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    attachments: Informer[Pod]
    claims: Informer[PersistentVolumeClaim]
    data_volumes: Informer[DataVolume]
    events: EventRecorder
    clock: Clock

    def writes(
        self, more: Mapping[type, Informer[Any]] | None = None, freezes: GuestFreezes | None = None
    ) -> SnapshotWrites:
        """What the loops write with; `more` are informers of kinds that one of them writes besides."""
        informers: dict[type, Informer[Any]] = {
            VirtualMachineSnapshot: self.snapshots,
            VirtualMachineSnapshotContent: self.contents,
            VolumeSnapshot: self.driver_snapshots,
            VirtualMachineRestore: self.restores,
            VirtualMachine: self.vms,
            VirtualMachineInstance: self.vmis,
            DataVolume: self.data_volumes,
            PersistentVolumeClaim: self.claims,
            **(more or {}),
        }
        return SnapshotWrites(self.client, self.events, informers, freezes)


def make_snapshot_work(sources: SnapshotSources) -> LateWork:
    """What takes snapshots. The informers of other kinds are started and stopped by others."""
    shared = (sources.vms, sources.vmis, sources.pods, sources.attachments, sources.claims, sources.data_volumes)
    own, perhaps = (sources.snapshots, sources.contents), (sources.driver_snapshots,)
    loop = SnapshotLoop(sources)
    return LateWork("snapshots", own, shared, loop, perhaps, loop.freezes.loops)


class SnapshotLoop:
    """One reconcile loop over all snapshots."""

    def __init__(self, sources: SnapshotSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._snapshots, self._contents = sources.snapshots, sources.contents
        self._vms, self._data_volumes = sources.vms, sources.data_volumes
        self.freezes = GuestFreezes(sources.client, sources.clock, self._look_at_vm)
        self._writes = sources.writes(freezes=self.freezes)
        # By the snapshot's UID: why the server did not take what was to be made.
        self._refusals: dict[str, str] = {}
        self._snapshots.add_index(_OF_VM, lambda item: (f"{item.metadata.namespace}/{item.spec.source.name}",))
        self._contents.add_index(_OF_SNAPSHOT, _snapshot_of)
        self._vms.add_index(_LOCKED_BY, _lock_of)
        for pods in (sources.pods, sources.attachments):
            pods.add_index(_BY_CLAIM, _claims_of)
        self.loop = ReconcileLoop("snapshots", self.reconcile)
        self._snapshots.on_change(self._on_snapshot)
        self._contents.on_change(self._on_content)
        self._vms.on_change(self._on_vm)
        sources.vmis.on_change(self._on_vmi)
        self._data_volumes.on_change(self._on_data_volume)
        sources.driver_snapshots.on_change(self._on_driver_snapshot)

    def stop(self) -> None:
        """End the worker, and those that freeze and thaw guests."""
        self.loop.stop()
        self.freezes.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one snapshot, and for what one of this name has left behind.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        held = False
        for content in self._contents.find_indexed(_OF_SNAPSHOT, f"{key.namespace}/{key.name}"):
            unfilled = find_unfilled(self._sources.claims, content) if content.metadata.deletion_timestamp else ()
            write = plan_letting_go(content, unfilled)
            if write is not None:
                self._writes.patch(write)
            held = held or bool(unfilled)
        if self._snapshots.get(*key) is None:
            self._unlock_orphans(key)
            return Again(_HELD_SECONDS) if held else None
        return self._writes.settle(
            lambda: self._snapshots.get(*key),
            lambda item: plan_snapshot(self._view(item), self._sources.clock.now()),
            self._refusals,
            _LIMITS,
        )

    def _view(self, snapshot: VirtualMachineSnapshot) -> SnapshotView:
        namespace, name = snapshot.metadata.namespace, snapshot.spec.source.name
        vm = self._vms.get(namespace, name)
        found = self._contents.find_indexed(_OF_SNAPSHOT, f"{namespace}/{snapshot.metadata.name}")
        content = next((each for each in found if each.metadata.name.endswith(snapshot.metadata.uid)), None)
        sources = {*lasting_claims(vm).values(), state_claim_of(vm.metadata)} if vm is not None else set()
        copies = copy_names(content) if content is not None else []
        if content is not None:
            sources |= set(claim_names(content).values())
        vmi, client = self._sources.vmis.get(namespace, name), self._sources.client
        freeze = self.freezes.find(vmi, snapshot.metadata.uid)
        claims = {
            claim: there for claim in (*sources, *copies) if (there := self._sources.claims.get(namespace, claim))
        }
        return SnapshotView(
            snapshot=snapshot,
            content=content,
            vm=vm,
            vmi=vmi,
            claims=claims,
            copies={copy: made for copy in copies if (made := self._data_volumes.get(namespace, copy))},
            pods=self._find_pods(namespace, sources),
            refusal=self._refusals.get(snapshot.metadata.uid, ""),
            revision=None if content is not None or vm is None else find_revision(client, vm, vmi),
            types={} if content is not None or vm is None else find_types(client, vm),
            classes=find_classes(client, snapshot, content, vm, claims),
            driver_snapshots=find_driver_snapshots(self._sources.driver_snapshots, content),
            unfilled=find_unfilled(self._sources.claims, content) if snapshot.metadata.deletion_timestamp else (),
            freeze=freeze,
        )

    def _find_pods(self, namespace: str, claims: set[str]) -> Sequence[str]:
        """Launchers and their attachments that have one of these claims, and have not ended."""
        return sorted(
            {
                pod.metadata.name
                for claim in claims
                for pods in (self._sources.pods, self._sources.attachments)
                for pod in pods.find_indexed(_BY_CLAIM, f"{namespace}/{claim}")
                if not has_ended(pod)
            }
        )

    def _unlock_orphans(self, key: Key) -> None:
        """A snapshot that somebody has removed with its finalizer lets go of its VM."""
        for _ in range(_UNLOCKING_WRITES):
            for vm in self._vms.find_indexed(_LOCKED_BY, f"{key.namespace}/{key.name}"):
                vmi = self._sources.vmis.get(vm.metadata.namespace, vm.metadata.name)
                asked = None if vmi is None else vmi.status.disk_copy
                if asked is not None and (taken_back := withdraw(vmi, asked.name)) is not None:
                    self._writes.patch(taken_back)
                write = unlock(key.name, vm)
                if write is not None:
                    self._writes.patch(write)

    def _on_snapshot(self, old: VirtualMachineSnapshot | None, new: VirtualMachineSnapshot | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
            self.freezes.drop(item.metadata.uid)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_content(self, old: VirtualMachineSnapshotContent | None, new: VirtualMachineSnapshotContent | None) -> None:
        item = new or old
        assert item is not None
        for name in _snapshot_of(item):
            self.loop.add(Key(*name.split("/", 1)))

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        item = new or old
        assert item is not None
        self._look_at_vm(item.metadata.namespace, item.metadata.name)
        for name in _lock_of(item):
            self.loop.add(Key(*name.split("/", 1)))

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        if new is None or old is None or _matters(old) != _matters(new):
            self._look_at_vm(item.metadata.namespace, item.metadata.name)

    def _on_driver_snapshot(self, old: VolumeSnapshot | None, new: VolumeSnapshot | None) -> None:
        item = new or old
        assert item is not None
        self._look_at_content(item)

    def _on_data_volume(self, old: DataVolume | None, new: DataVolume | None) -> None:
        item = new or old
        assert item is not None
        self._look_at_content(item)

    def _look_at_content(self, item: DataVolume | VolumeSnapshot) -> None:
        owner = item.metadata.controller_reference()
        if owner is None or owner.kind != VirtualMachineSnapshotContent.KIND.kind:
            return
        content = self._contents.get(item.metadata.namespace, owner.name)
        if content is not None:
            self._on_content(None, content)

    def _look_at_vm(self, namespace: str, vm: str) -> None:
        for each in self._snapshots.find_indexed(_OF_VM, f"{namespace}/{vm}"):
            if not each.is_final:
                self.loop.add(Key(namespace, each.metadata.name))


def _matters(vmi: VirtualMachineInstance) -> tuple[object, ...]:
    """What snapshots see of a VMI."""
    status = vmi.status
    asked = status.disk_copy is None, not vmi.spec.utility_volumes
    held = status.fs_freeze_status, is_paused(vmi)
    return status.phase, vmi.backup_status, asked, status.evacuation_node_name, held


def _snapshot_of(content: VirtualMachineSnapshotContent) -> tuple[str, ...]:
    name = content.spec.virtual_machine_snapshot_name
    return (f"{content.metadata.namespace}/{name}",) if name else ()


def _lock_of(vm: VirtualMachine) -> tuple[str, ...]:
    name = vm.status.snapshot_in_progress
    return (f"{vm.metadata.namespace}/{name}",) if name else ()


def _claims_of(pod: Pod) -> tuple[str, ...]:
    return tuple(
        f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    )
