"""Carries out what a pool's plan says, one write after the other, each against what was seen.

Used by the pool's loop. Writes to the API server; the answer of each write goes into the caches.
"""

from __future__ import annotations

import contextlib

from msgspec import Struct

from kvedge.controller.pools.pool_actions import (
    CreateVm,
    DeleteVm,
    Detach,
    KeepRevision,
    LetGo,
    PoolAction,
    Prune,
    Relabel,
    Restart,
    UpdateVm,
)
from kvedge.controller.pools.pool_plan import revision_name
from kvedge.controller.pools.pool_template import update_body, vm_of_pool
from kvedge.controller.pools.state_keeper import NotDoneError, StateKeeper
from kvedge.kube.errors import AlreadyExists, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.patches import at_version
from kvedge.kube.watches import KubeObject
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.scaling.pools import (
    POOL_FINALIZER,
    REVISION_LABEL,
    REVISION_OF_POOL,
    VirtualMachinePool,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


class PoolWrites(Struct, frozen=True):
    """The client, and the caches that hear of what it wrote."""

    client: KubeClient
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    revisions: Informer[ControllerRevision]
    events: EventRecorder

    def do(self, pool: VirtualMachinePool, action: PoolAction, keeper: StateKeeper) -> None:
        """Do one action; `keeper` keeps the disks of VMs that go.

        Raises:
            KubeError: when the server refuses or does not answer.
            NotDoneError: when something would go that is to be kept, or stands in the way.
        """
        match action:
            case KeepRevision():
                self._keep_revision(pool)
            case CreateVm(number, revision):
                self._create(pool, vm_of_pool(pool, number, revision))
            case DeleteVm(vm, keeps):
                if keeps:
                    keeper.check(vm)
                self._delete(pool, vm, keeps)
            case LetGo(vm, keeps):
                if keeps:
                    keeper.keep(vm, pool.metadata.name)
                self.let_go(vm)
            case Detach(vm):
                self._patch_vm(vm, {"metadata": {**_without_finalizer(vm), "ownerReferences": _others(vm, pool)}})
            case UpdateVm(vm, before):
                self._patch_vm(vm, update_body(pool, vm, before, revision_name(pool)))
                self._tell(pool, "SuccessfulUpdate", f"Updated VM {vm.metadata.namespace}/{vm.metadata.name}")
            case Restart(vmi):
                self._restart(pool, vmi)
            case Relabel(vmi, revision):
                body = {"metadata": {"labels": {REVISION_LABEL: revision}}}
                meta = vmi.metadata
                patch = at_version(body, meta.resource_version)
                self.vmis.observe(self.client.patch(VirtualMachineInstance, meta.namespace, meta.name, patch))
            case Prune(revision):
                meta = revision.metadata
                with contextlib.suppress(NotFound):
                    self.client.delete(ControllerRevision, meta.namespace, meta.name, Preconditions(uid=meta.uid))

    def let_go(self, vm: VirtualMachine) -> None:
        """Take our finalizer from a VM."""
        if POOL_FINALIZER in vm.metadata.finalizers:
            self._patch_vm(vm, {"metadata": _without_finalizer(vm)})

    def learn_vms(self, namespace: str) -> None:
        """Take in all VMs of a namespace as the server has them: an answer was lost."""
        for vm in self.client.list(VirtualMachine, namespace):
            self.vms.observe(vm)

    def _keep_revision(self, pool: VirtualMachinePool) -> None:
        revision = ControllerRevision(
            metadata=ObjectMeta(
                name=revision_name(pool),
                namespace=pool.metadata.namespace,
                labels={REVISION_OF_POOL: ""},
                owner_references=[owner_reference(pool)],
            ),
            data=encode(pool.spec),
            revision=pool.metadata.generation,
        )
        try:
            made = self.client.create(revision)
        except AlreadyExists:
            there = self.client.get(ControllerRevision, pool.metadata.namespace, revision_name(pool))
            owner = there.metadata.controller_reference()
            if owner is not None and owner.uid == pool.metadata.uid:
                made = there
            elif self._clear_orphaned(there):
                made = self.client.create(revision)
            else:
                raise
        self.revisions.observe(made)

    def _clear_orphaned(self, there: ControllerRevision) -> bool:
        """Delete a revision in the way when it was an orphaned pool's; False for one that goes by itself."""
        meta, owner = there.metadata, there.metadata.controller_reference()
        if meta.deletion_timestamp is not None or (owner is not None and owner.kind == VirtualMachinePool.KIND.kind):
            # It goes with its pool.
            return False
        if owner is None and REVISION_OF_POOL in meta.labels:
            with contextlib.suppress(NotFound):
                self.client.delete(ControllerRevision, meta.namespace, meta.name, Preconditions(uid=meta.uid))
            return True
        whose = "is of no pool" if owner is None else f"belongs to {owner.kind} {owner.name}"
        raise NotDoneError(
            f"ControllerRevision {meta.name}, whose name the pool needs, {whose} (UID {meta.uid}):"
            " delete it, or make the pool under another name"
        )

    def _create(self, pool: VirtualMachinePool, vm: VirtualMachine) -> None:
        try:
            created = self.client.create(vm)
        except AlreadyExists:
            # The cache is behind: another number is taken in the next pass if the VM is another's.
            with contextlib.suppress(NotFound):
                self.vms.observe(self.client.get(VirtualMachine, vm.metadata.namespace, vm.metadata.name))
            return
        self.vms.observe(created)
        self._tell(pool, "SuccessfulCreate", f"Created VM {vm.metadata.namespace}/{vm.metadata.name}")

    def _delete(self, pool: VirtualMachinePool, vm: VirtualMachine, keeps: bool) -> None:
        meta = vm.metadata
        if keeps and POOL_FINALIZER not in meta.finalizers:
            # It holds the VM until its DataVolumes are kept; somebody has taken it away.
            self._patch_vm(vm, {"metadata": {"finalizers": [*meta.finalizers, POOL_FINALIZER]}})
        as_seen = Preconditions(uid=meta.uid)
        # The name, and with it the number, is taken until the disks that go are gone.
        propagation = "Background" if keeps else "Foreground"
        with contextlib.suppress(NotFound):
            left = self.client.delete(VirtualMachine, meta.namespace, meta.name, as_seen, propagation=propagation)
            if left is not None:
                self.vms.observe(left)
        words = f"Deleted VM {meta.namespace}/{meta.name} with uid {meta.uid} from pool"
        self._tell(pool, "SuccessfulDelete", words)

    def _restart(self, pool: VirtualMachinePool, vmi: VirtualMachineInstance) -> None:
        meta = vmi.metadata
        with contextlib.suppress(NotFound):
            left = self.client.delete(VirtualMachineInstance, meta.namespace, meta.name, Preconditions(uid=meta.uid))
            if left is not None:
                self.vmis.observe(left)
        self._tell(pool, "SuccessfulDelete", f"Successfully updated resource {meta.namespace}/{meta.name}")

    def _patch_vm(self, vm: VirtualMachine, body: JsonObject) -> None:
        meta = vm.metadata
        patch = at_version(body, meta.resource_version)
        with contextlib.suppress(NotFound):
            patched = self.client.patch(VirtualMachine, meta.namespace, meta.name, patch)
            if patched.metadata.is_left:
                self.vms.observe(patched)

    def _tell(self, pool: KubeObject, reason: str, message: str) -> None:
        self.events.record(pool, "Normal", reason, message)


def _without_finalizer(vm: VirtualMachine) -> JsonObject:
    return {"finalizers": [item for item in vm.metadata.finalizers if item != POOL_FINALIZER]}


def _others(vm: VirtualMachine, pool: VirtualMachinePool) -> list[JsonObject]:
    return [encode(owner) for owner in vm.metadata.owner_references if owner.uid != pool.metadata.uid]
