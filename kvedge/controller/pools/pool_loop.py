"""Brings one VirtualMachinePool after the other to its number of VMs, and VMs to its template.

Run by the controller role. Reads informers, asks :func:`plan_pool`, does what it says in its order. The numbers in the
names of VMs keep a controller that saw too little from making one twice.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.controller.late_work import LateWork
from kvedge.controller.pools.pool_actions import CreateVm, KeepRevision, PoolAction
from kvedge.controller.pools.pool_plan import PoolView, plan_pool, selector_fault, selector_in_use
from kvedge.controller.pools.pool_refusals import Refusals
from kvedge.controller.pools.pool_status import next_status, told_change
from kvedge.controller.pools.pool_writes import PoolWrites
from kvedge.controller.pools.state_keeper import NotDoneError, StateKeeper
from kvedge.controller.scaling_selector import BAD_SELECTOR
from kvedge.controller.scaling_status import FAILURE, gather_seconds, status_body
from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vm.vm_plan import is_owned
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.meta import condition
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.scaling.pools import POOL_FINALIZER, REVISION_OF_POOL, VirtualMachinePool
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_MOST_STEPS: Final = 6
_CAUGHT_UP_SECONDS: Final = 0.05
# A revision of an earlier pool of the name has to go first.
_IN_THE_WAY_SECONDS: Final = 2.0
_FINALIZED: Final = "vms-with-the-finalizer-of-pools"


class PoolSources(Struct, frozen=True):
    """The informers and writers that the loop works with."""

    client: KubeClient
    pools: Informer[VirtualMachinePool]
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    revisions: Informer[ControllerRevision]
    events: EventRecorder
    clock: Clock


def make_pool_work(
    client: KubeClient,
    vms: Informer[VirtualMachine],
    vmis: Informer[VirtualMachineInstance],
    events: EventRecorder,
    clock: Clock,
) -> LateWork:
    """What keeps pools. `vms` and `vmis` are started and stopped by others, and have not been started yet."""
    pools = Informer(client, VirtualMachinePool)
    revisions = Informer(client, ControllerRevision, label_selector=REVISION_OF_POOL)
    loop = PoolLoop(PoolSources(client, pools, vms, vmis, revisions, events, clock))
    return LateWork("pools", (pools, revisions), (vms, vmis), loop)


class PoolLoop:
    """One reconcile loop over all pools."""

    def __init__(self, sources: PoolSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._client = sources.client
        self._writes = PoolWrites(sources.client, sources.vms, sources.vmis, sources.revisions, sources.events)
        # How long to wait with VMs that are to be made, and with all else that was refused.
        self._patience = CreatePatience(sources.clock.monotonic)
        self._others = CreatePatience(sources.clock.monotonic)
        # Pools of which a VM may have been made without an answer.
        self._unsure: set[str] = set()
        sources.vms.add_index(_FINALIZED, _namespace_of_finalized)
        self.loop = ReconcileLoop("pools", self.reconcile)
        sources.pools.on_change(self._on_pool)
        sources.vms.on_change(self._on_vm)
        sources.vmis.on_change(self._on_vmi)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one pool."""
        refusals = Refusals()
        self._free_orphans(key)
        for _ in range(_MOST_STEPS):
            pool = self._sources.pools.get(*key)
            if pool is None:
                return None
            if pool.metadata.deletion_timestamp is not None:
                self._let_go(pool)
                return None
            selector = selector_in_use(pool)
            if selector is None:
                self._report(pool, None, (BAD_SELECTOR, selector_fault(pool)))
                return None
            if POOL_FINALIZER not in pool.metadata.finalizers:
                self._patch_pool(pool, {"metadata": {"finalizers": [*pool.metadata.finalizers, POOL_FINALIZER]}}, "")
                continue
            again = self._pass(pool, selector, refusals)
            if again is not None:
                return None if again.after < 0 else again
        # What was refused is not tried again at once.
        left = None if pool is None or refusals.first is None else self._count_seconds_left(pool)
        return Again(left or _CAUGHT_UP_SECONDS)

    def _pass(self, pool: VirtualMachinePool, selector: LabelSelector, refusals: Refusals) -> Again | None:
        """Carry one plan out; when to come back, never for a negative time, or None when there may be more to do."""
        namespace, uid = pool.metadata.namespace, pool.metadata.uid
        self._learn_if_unsure(pool)
        wait = self._patience.count_seconds_left(uid, pool.metadata.generation)
        taken = self._sources.vms.get
        view = replace(self._view(pool), refused=refusals.vms, may_create=wait <= 0)
        plan = plan_pool(view, selector, lambda name: taken(namespace, name) is not None, self._sources.clock.now())
        keeper, known, done = StateKeeper(self._client, namespace), refusals.extent, 0
        for action in plan.actions:
            if isinstance(action, CreateVm) and refusals.creation:
                break
            try:
                self._writes.do(pool, action, keeper)
                done += 1
            except Conflict:
                return Again(_CAUGHT_UP_SECONDS)
            except AlreadyExists:
                return Again(_IN_THE_WAY_SECONDS)
            except (KubeError, NotDoneError) as error:
                if isinstance(error, KubeError) and is_passing(error):
                    self._unsure.add(uid)
                    raise
                self._note_refusal(pool, refusals, action, error)
                if isinstance(action, KeepRevision):
                    break
        if refusals.first is None:
            self._others.forget(uid)
            if any(isinstance(action, CreateVm) for action in plan.actions):
                self._patience.forget(uid)
        wait = self._patience.count_seconds_left(uid, pool.metadata.generation)
        self._report(pool, selector, refusals.first or (self._known_failure(pool) if wait > 0 else None))
        if done or refusals.extent != known:
            return None
        waits = [each for each in (plan.again_after, self._count_seconds_left(pool)) if each is not None]
        return Again(min(waits, default=-1.0))

    def _note_refusal(self, pool: VirtualMachinePool, refusals: Refusals, action: PoolAction, error: Exception) -> None:
        if refusals.note(action, error):
            patience = self._patience if isinstance(action, CreateVm | KeepRevision) else self._others
            patience.note_refusal(pool.metadata.uid, pool.metadata.generation)

    def _count_seconds_left(self, pool: VirtualMachinePool) -> float | None:
        """When what was refused is tried again; None where nothing was."""
        uid, generation = pool.metadata.uid, pool.metadata.generation
        waits = [patience.count_seconds_left(uid, generation) for patience in (self._patience, self._others)]
        return min((wait for wait in waits if wait > 0), default=None)

    def _learn_if_unsure(self, pool: VirtualMachinePool) -> None:
        if pool.metadata.uid in self._unsure:
            self._writes.learn_vms(pool.metadata.namespace)
            self._unsure.discard(pool.metadata.uid)

    def _free_orphans(self, key: Key) -> None:
        """Let VMs go whose pool ended without us: its finalizer would hold them for ever."""
        pool = self._sources.pools.get(*key)
        known = "" if pool is None else pool.metadata.uid
        found = []
        for vm in self._sources.vms.find_indexed(_FINALIZED, key.namespace):
            owner = vm.metadata.controller_reference()
            if owner is None or owner.kind != VirtualMachinePool.KIND.kind or owner.name != key.name:
                continue
            if owner.uid != known:
                found.append((vm, owner.uid))
        if not found:
            return
        try:
            live = self._client.get(VirtualMachinePool, key.namespace, key.name).metadata.uid
        except NotFound:
            live = ""
        for vm, uid in found:
            if uid != live:
                self._writes.let_go(vm)

    def _known_failure(self, pool: VirtualMachinePool) -> tuple[str, str] | None:
        known = condition(pool.status.conditions, FAILURE)
        return None if known is None else (known.reason, known.message)

    def _view(self, pool: VirtualMachinePool) -> PoolView:
        uid, namespace = pool.metadata.uid, pool.metadata.namespace
        # An owner is in the namespace of what it owns, whatever a reference says.
        vms = [vm for vm in self._sources.vms.find_owned_by(uid) if vm.metadata.namespace == namespace]
        # A guest of a VM's name may be somebody else's.
        found = ((vm, self._sources.vmis.get(namespace, vm.metadata.name)) for vm in vms)
        vmis = {vm.metadata.name: vmi for vm, vmi in found if vmi is not None and is_owned(vmi, vm)}
        revisions = [
            item for item in self._sources.revisions.find_owned_by(uid) if item.metadata.namespace == namespace
        ]
        return PoolView(
            pool,
            vms,
            vmis,
            {item.metadata.name: item for item in revisions},
        )

    def _let_go(self, pool: VirtualMachinePool) -> None:
        """Take our finalizers away: from here on the garbage collector ends the VMs, or orphans them."""
        if POOL_FINALIZER not in pool.metadata.finalizers:
            return
        self._learn_if_unsure(pool)
        # A collector that orphans may have taken the owner away before us.
        for vm in self._sources.vms.find_indexed(_FINALIZED, pool.metadata.namespace):
            owner = vm.metadata.controller_reference()
            if owner.uid == pool.metadata.uid if owner is not None else _is_selected(vm, pool):
                self._writes.let_go(vm)
        left = [item for item in pool.metadata.finalizers if item != POOL_FINALIZER]
        self._patch_pool(pool, {"metadata": {"finalizers": left}}, "")

    def _report(
        self, pool: VirtualMachinePool, selector: LabelSelector | None, failure: tuple[str, str] | None
    ) -> None:
        status = next_status(pool, self._view(pool).vms, selector, failure, self._sources.clock.now())
        body = status_body(pool, status)
        if not body:
            return
        if failure is not None and condition(pool.status.conditions, FAILURE) is None:
            self._sources.events.record(pool, "Warning", *failure)
        told = told_change(pool, status)
        if self._patch_pool(pool, body, "status") and told is not None:
            self._sources.events.record(pool, "Normal", *told)

    def _patch_pool(self, pool: VirtualMachinePool, body: dict[str, object], subresource: str) -> bool:
        meta = pool.metadata
        patch = at_version(body, meta.resource_version)
        try:
            patched = self._client.patch(VirtualMachinePool, meta.namespace, meta.name, patch, subresource)
        except NotFound:
            return False
        if patched.metadata.is_left:
            self._sources.pools.observe(patched)
        return True

    def _on_pool(self, old: VirtualMachinePool | None, new: VirtualMachinePool | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._patience.forget(item.metadata.uid)
            self._others.forget(item.metadata.uid)
            self._unsure.discard(item.metadata.uid)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        for item in (old, new):
            owner = None if item is None else item.metadata.controller_reference()
            if item is not None and owner is not None and owner.kind == VirtualMachinePool.KIND.kind:
                pool = self._sources.pools.get(item.metadata.namespace, owner.name)
                seconds = gather_seconds(None if pool is None else pool.spec.replicas)
                self.loop.queue.add_after(Key(item.metadata.namespace, owner.name), seconds)

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        # A guest's VM has its name; of other VMs' guests nothing changes for a pool.
        vm = self._sources.vms.get(item.metadata.namespace, item.metadata.name)
        if vm is not None:
            self._on_vm(None, vm)


def _namespace_of_finalized(vm: VirtualMachine) -> tuple[str, ...]:
    return (vm.metadata.namespace,) if POOL_FINALIZER in vm.metadata.finalizers else ()


def _is_selected(vm: VirtualMachine, pool: VirtualMachinePool) -> bool:
    selector = selector_in_use(pool)
    return selector is not None and selector.matches(vm.metadata.labels)
