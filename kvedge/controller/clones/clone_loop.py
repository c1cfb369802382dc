"""Brings one clone after the other to its end.

Run by the controller role. Reads informers, asks :func:`plan_clone`, and has `snapshot_writes` do what it says.
"""

from __future__ import annotations

from typing import Final, TypeVar

from kvedge.controller.clones.clone_plan import of_vm, plan_clone, target_of
from kvedge.controller.clones.clone_view import CloneView
from kvedge.controller.late_work import LateWork
from kvedge.controller.snapshots.snapshot_actions import Delete, SnapshotPlan
from kvedge.controller.snapshots.snapshot_loop import SnapshotSources
from kvedge.controller.snapshots.snapshot_writes import PassLimits
from kvedge.kube.errors import NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.clone_names import temporary_restore, temporary_snapshot
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.vm import VirtualMachine

T = TypeVar("T", VirtualMachineSnapshot, VirtualMachineRestore, VirtualMachine)

# A clone says itself what becomes of it when the server refuses a part.
_LIMITS: Final = PassLimits(16, None)
_REFUSED_SECONDS: Final = 5.0
_OF_SOURCE: Final = "clones-of-source"
_OF_TARGET: Final = "clones-of-target"


def make_clone_work(sources: SnapshotSources, clones: Informer[VirtualMachineClone]) -> LateWork:
    """What clones VMs. The informers of other kinds are started and stopped by others."""
    shared = (sources.snapshots, sources.contents, sources.restores, sources.vms, sources.claims)
    return LateWork("clones", (clones,), shared, CloneLoop(sources, clones))


class CloneLoop:
    """One reconcile loop over all clones."""

    def __init__(self, sources: SnapshotSources, clones: Informer[VirtualMachineClone]) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._clones = clones
        self._writes = sources.writes({VirtualMachineClone: clones})
        # By the clone's UID: why the server did not take what was to be made.
        self._refusals: dict[str, str] = {}
        clones.add_index(_OF_SOURCE, _source_of)
        clones.add_index(_OF_TARGET, lambda item: (f"{item.metadata.namespace}/{target_of(item)}",))
        self.loop = ReconcileLoop("clones", self.reconcile)
        clones.on_change(self._on_clone)
        sources.snapshots.on_change(self._on_part)
        sources.restores.on_change(self._on_part)
        sources.vms.on_change(self._on_vm)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one clone.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        return self._writes.settle(lambda: self._clones.get(*key), self._plan, self._refusals, _LIMITS)

    def _plan(self, clone: VirtualMachineClone) -> SnapshotPlan:
        plan = plan_clone(self._view(clone), self._sources.clock.now())
        return SnapshotPlan(again_after=_REFUSED_SECONDS) if self._waits_for_target(clone, plan) else plan

    def _view(self, clone: VirtualMachineClone) -> CloneView:
        namespace, uid, source = clone.metadata.namespace, clone.metadata.uid, clone.spec.source
        named = "" if source is None else source.name
        snapshot = self._sources.snapshots.get(namespace, temporary_snapshot(uid) if of_vm(clone) else named)
        content = None if snapshot is None else snapshot.status.virtual_machine_snapshot_content_name
        restore = self._sources.restores.get(namespace, temporary_restore(uid))
        claims = [] if restore is None else [each.persistent_volume_claim for each in restore.status.restores]
        return CloneView(
            clone=clone,
            source=self._sources.vms.get(namespace, named) if of_vm(clone) else None,
            snapshot=snapshot,
            content=self._sources.contents.get(namespace, content) if content else None,
            restore=restore,
            target=self._sources.vms.get(namespace, target_of(clone)),
            claims={name: found for name in claims if (found := self._sources.claims.get(namespace, name))},
            refusal=self._refusals.get(uid, ""),
        )

    def _waits_for_target(self, clone: VirtualMachineClone, plan: SnapshotPlan) -> bool:
        """Whether the VM of a clone that is about to go is there after all: the cache was behind.

        Raises:
            KubeError: when the server does not answer.
        """
        if not any(isinstance(each, Delete) and each.item is clone for each in plan.actions):
            return False
        try:
            found = self._sources.client.get(VirtualMachine, clone.metadata.namespace, target_of(clone))
        except NotFound:
            return False
        self._sources.vms.observe(found)
        return True

    def _on_clone(self, old: VirtualMachineClone | None, new: VirtualMachineClone | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_part(self, old: T | None, new: T | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        if owner is not None and owner.kind == VirtualMachineClone.KIND.kind:
            self.loop.add(Key(item.metadata.namespace, owner.name))
        self._look_at(_OF_SOURCE, f"{item.metadata.namespace}/{type(item).KIND.kind}/{item.metadata.name}")

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        item = new or old
        assert item is not None
        if old is None or new is None:
            namespace, name = item.metadata.namespace, item.metadata.name
            self._look_at(_OF_SOURCE, f"{namespace}/{VirtualMachine.KIND.kind}/{name}")
            self._look_at(_OF_TARGET, f"{namespace}/{name}")

    def _look_at(self, index: str, value: str) -> None:
        for each in self._clones.find_indexed(index, value):
            self.loop.add(Key(each.metadata.namespace, each.metadata.name))


def _source_of(clone: VirtualMachineClone) -> tuple[str, ...]:
    source = clone.spec.source
    return (f"{clone.metadata.namespace}/{source.kind}/{source.name}",) if source is not None else ()
