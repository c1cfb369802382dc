"""Brings one VM after the other to where its run strategy wants it.

Run by the controller role. Reads VMs and VMIs from informers, asks :func:`plan_vm`, does what it says, in its order and
each write against the version that was planned on. The answer of a write goes into the cache, so that the next step is
planned on it in the same pass.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.controller.vm.claim_changes import named_claims
from kvedge.controller.vm.claim_sights import ClaimWatch
from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vm.live_changes import LiveChanges
from kvedge.controller.vm.revision_keeper import RevisionKeeper
from kvedge.controller.vm.type_keeper import TypeKeeper, TypeSettings
from kvedge.controller.vm.vm_actions import (
    AdoptVmi,
    AnnotateClaim,
    ChangeRun,
    CreateVmi,
    DeleteVmi,
    KeepRevision,
    Live,
    NoteMachine,
    PatchVm,
    PatchVmi,
    PatchVmStatus,
    PutBack,
    Rollout,
    VmAction,
)
from kvedge.controller.vm.vm_data_volumes import VmDataVolumes
from kvedge.controller.vm.vm_plan import is_owned, plan_create_failure, plan_vm, release_body, without_generation
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.patches import MergePatch, at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.memory_dumps import DUMP_ANNOTATION
from kvedge.resources.names import VM_FINALIZER
from kvedge.resources.types.core import Node
from kvedge.resources.types.data_volumes import CdiConfig, DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_WORKERS: Final = 2
# Own writes are planned on at once; more steps than this in one pass would be a plan that never settles.
_MOST_STEPS: Final = 5
# When the cache turned out to be behind: the watch needs a moment.
_CAUGHT_UP_SECONDS: Final = 0.05
# A DataVolume that was refused: a quota may get room, or its kind be served.
_UNMADE_SECONDS: Final = 10.0
# An instance type that is not there: somebody may make it.
_UNTYPED_SECONDS: Final = 3.0


class VmSources(Struct, frozen=True):
    """The informers and writers that the loop works with."""

    client: KubeClient
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    data_volumes: Informer[DataVolume]
    claims: Informer[PersistentVolumeClaim]
    nodes: Informer[Node]
    events: EventRecorder
    clock: Clock
    # Whether a VM's hotpluggable volumes are carried to its run.
    is_declarative: Callable[[], bool] = lambda: True
    # The network binding plugins whose NICs are.
    live_plugins: Callable[[], frozenset[str]] = frozenset
    # What the file systems of claims take.
    cdi_config: Callable[[], CdiConfig | None] = lambda: None
    # How VMs keep their instance types.
    types: Callable[[], TypeSettings] = TypeSettings
    # Whether changes of templates reach running guests.
    rollout: Callable[[], Rollout] = Rollout


class VmLoop:
    """One reconcile loop over all VMs."""

    def __init__(self, sources: VmSources) -> None:
        self._client = sources.client
        self._vms = sources.vms
        self._vmis = sources.vmis
        self._data_volumes = sources.data_volumes
        self._disks = VmDataVolumes(sources.client, sources.vms, sources.data_volumes, sources.events)
        self._claims = sources.claims
        self._claim_watch = ClaimWatch(sources.vms, sources.vmis, sources.claims, sources.nodes, sources.cdi_config)
        self._events = sources.events
        self._clock = sources.clock
        self._patience = CreatePatience(sources.clock.monotonic)
        self._live = LiveChanges(
            sources.events, sources.clock.monotonic, sources.is_declarative, sources.live_plugins, sources.rollout
        )
        self._revisions = RevisionKeeper(sources.client, sources.events)
        self._types = TypeKeeper(sources.client, sources.events, sources.types)
        self.loop = ReconcileLoop("vm", self.reconcile, _WORKERS)

    def start(self) -> None:
        """Begin to work on all VMs there are."""
        self._vms.on_change(self._on_vm)
        self._vmis.on_change(self._on_vmi)
        self._data_volumes.on_change(self._on_data_volume)
        self._claims.on_change(self._on_claim)
        self.loop.start()

    def stop(self) -> None:
        """End the workers."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one VM."""
        for _ in range(_MOST_STEPS):
            vm = self._vms.get(*key)
            vmi = self._vmis.get(*key)
            if vm is None:
                self._release_orphan(vmi)
                return None
            typed = self._types.sync(vm)
            if isinstance(typed, VirtualMachine):
                # Something of it was written: plan on that.
                self._vms.observe(typed)
                continue
            making = self._disks.make(key, vm)
            hotplug = replace(
                self._live.hotplug_of(vm), claims=self._claim_watch.view(vm, vmi), dump_claim=self._find_dump_claim(vm)
            )
            disks = self._disks.of(key, vm)
            plan = plan_vm(vm, vmi, self._clock.now(), random.random(), hotplug, disks, making.blocked, typed)
            if not plan.actions:
                wait = self._live.count_seconds_left(vm)
                unmade = _UNMADE_SECONDS if making.unmade else None
                waits = (plan.again_after, wait, unmade, None if typed.failure is None else _UNTYPED_SECONDS)
                left = [each for each in waits if each is not None]
                return Again(min(left)) if left else None
            again = self._carry_out(vm, plan.actions)
            if again is not None:
                return again
        log.error("a VM's plan does not settle", extra={"facts": {"vm": str(key)}})
        return Again(5.0)

    def _carry_out(self, vm: VirtualMachine, actions: Sequence[VmAction]) -> Again | None:
        """Do one action after the other; when to go on if the pass must end here.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        not_kept: KubeError | None = None
        for planned in actions:
            action: VmAction | None = planned
            if isinstance(action, KeepRevision):
                not_kept = self._revisions.keep(vm, action)
                continue
            if not_kept is not None and isinstance(action, PatchVmStatus):
                action = without_generation(action)
            if action is None:
                continue
            outcome = self._do(vm, action)
            if isinstance(outcome, Again):
                return outcome
            # The next write is for the version that this one made, not for one that somebody else made since.
            vm = outcome
        if not_kept is not None:
            raise not_kept
        return None

    def _find_dump_claim(self, vm: VirtualMachine) -> PersistentVolumeClaim | None:
        request = vm.status.memory_dump_request
        return None if request is None else self._claims.get(vm.metadata.namespace, request.claim_name)

    def _on_data_volume(self, old: DataVolume | None, new: DataVolume | None) -> None:
        item = new or old
        assert item is not None
        for key in self._disks.users_of(item):
            self.loop.add(key)

    def _on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        item = new or old
        assert item is not None
        for key in self._claim_watch.users_of(item):
            self.loop.add(key)

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._patience.forget(item.metadata.uid)
            self._live.forget(item.metadata.uid)
            self._revisions.forget(item.metadata.uid)
            self._types.forget(item.metadata.uid)
            self._disks.forget(Key(item.metadata.namespace, item.metadata.name))
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        # A VMI has its VM's name, whether it is owned already, is to be adopted, or stands in the way.
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _release_orphan(self, vmi: VirtualMachineInstance | None) -> None:
        """A VMI whose VM is gone for good keeps no finalizer of the VM controller's."""
        owner = None if vmi is None else vmi.metadata.controller_reference()
        if vmi is None or VM_FINALIZER not in vmi.metadata.finalizers:
            return
        if owner is not None and owner.kind == VirtualMachine.KIND.kind and self._exists(vmi, owner.uid):
            return
        # The reference to its owner stays: by it the garbage collector ends the VMI. An orphaning delete takes the
        # reference away before.
        self._patch_vmi(vmi, release_body(vmi, ""))

    def _exists(self, vmi: VirtualMachineInstance, uid: str) -> bool:
        try:
            vm = self._client.get(VirtualMachine, vmi.metadata.namespace, vmi.metadata.name)
        except NotFound:
            return False
        self._vms.observe(vm)
        return vm.metadata.uid == uid

    def _do(self, vm: VirtualMachine, action: VmAction) -> VirtualMachine | Again:
        """Do one action: the VM as it is after it, or when to go on if the pass must end here.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        match action:
            case PatchVm(body):
                patched = self._patch_vm(vm, body, "")
                return patched if patched.metadata.is_left else Again(_CAUGHT_UP_SECONDS)
            case PutBack(body):
                return self._put_back(vm, body)
            case PatchVmStatus(body):
                return self._patch_vm(vm, body, "status")
            case PatchVmi(vmi, body):
                self._patch_vmi(vmi, body)
            case AdoptVmi(vmi, body):
                self._adopt(vm, vmi, body)
            case ChangeRun(vmi, body, what):
                self._live.carry(vm, what, partial(self._patch_vmi, vmi, body))
            case NoteMachine(body):
                return self._live.carry(vm, Live.MACHINE, partial(self._patch_vm, vm, body, "")) or vm
            case AnnotateClaim(claim, value):
                self._annotate(claim, value)
            case CreateVmi(vmi):
                return self._create(vm, vmi)
            case DeleteVmi(vmi):
                self._delete(vm, vmi)
        return vm

    def _patch_vm(self, vm: VirtualMachine, body: JsonObject, subresource: str) -> VirtualMachine:
        meta = vm.metadata
        patch = at_version(body, meta.resource_version)
        patched = self._client.patch(VirtualMachine, meta.namespace, meta.name, patch, subresource)
        if patched.metadata.is_left:
            self._vms.observe(patched)
        return patched

    def _put_back(self, vm: VirtualMachine, body: JsonObject) -> VirtualMachine:
        text = "The run ended before its disks had moved: the VM"
        try:
            patched = self._patch_vm(vm, body, "")
        except KubeError as error:
            if not is_passing(error) and not isinstance(error, (Conflict, NotFound)):
                # Until then it does not start: its user has to know.
                why = f"{text} cannot be changed to name the claims again that have its data: {error}"
                self._events.record(vm, "Warning", "FailedVolumesPutBack", why)
            raise
        left = sorted(named_claims(vm) - named_claims(patched))
        # Nobody deletes what may be somebody's: its user is told what is of no use.
        more = f"; {', '.join(left)} has at most an unfinished copy: delete it unless you need it" if left else ""
        self._events.record(vm, "Warning", "VolumesPutBack", f"{text} names the claims again that have its data{more}")
        return patched

    def _patch_vmi(self, vmi: VirtualMachineInstance, body: JsonObject) -> None:
        meta = vmi.metadata
        patch = at_version(body, meta.resource_version)
        try:
            patched = self._client.patch(VirtualMachineInstance, meta.namespace, meta.name, patch)
        except NotFound:
            return
        if patched.metadata.is_left:
            self._vmis.observe(patched)

    def _annotate(self, claim: PersistentVolumeClaim, value: str) -> None:
        meta = claim.metadata
        patch = MergePatch({"metadata": {"uid": meta.uid, "annotations": {DUMP_ANNOTATION: value}}})
        try:
            self._claims.observe(self._client.patch(PersistentVolumeClaim, meta.namespace, meta.name, patch))
        except NotFound:
            # It has just gone, with the dump that was in it.
            return

    def _adopt(self, vm: VirtualMachine, vmi: VirtualMachineInstance, body: JsonObject) -> None:
        live = self._client.get(VirtualMachine, vm.metadata.namespace, vm.metadata.name)
        if live.metadata.uid != vm.metadata.uid or live.metadata.deletion_timestamp is not None:
            raise Conflict(409, "Conflict", "the VM is going or is another one, so that it adopts nothing")
        self._patch_vmi(vmi, body)
        log.info("adopted a VMI", extra={"facts": {"vm": f"{vm.metadata.namespace}/{vm.metadata.name}"}})

    def _create(self, vm: VirtualMachine, vmi: VirtualMachineInstance) -> VirtualMachine | Again:
        uid, generation = vm.metadata.uid, vm.metadata.generation
        wait = self._patience.count_seconds_left(uid, generation)
        if wait > 0:
            return Again(wait)
        try:
            created = self._client.create(vmi)
        except AlreadyExists:
            # The cache is behind: plan again on what there is.
            self._vmis.observe(self._client.get(VirtualMachineInstance, vm.metadata.namespace, vm.metadata.name))
            return Again(_CAUGHT_UP_SECONDS)
        except Conflict:
            raise
        except KubeError as error:
            self._record_refusal(vm, error)
            return Again(self._patience.note_refusal(uid, generation))
        self._patience.forget(uid)
        self._vmis.observe(created)
        message = f"Started the virtual machine by creating the new virtual machine instance {created.metadata.name}"
        self._events.record(vm, "Normal", "SuccessfulCreate", message)
        return vm

    def _record_refusal(self, vm: VirtualMachine, error: KubeError) -> None:
        if is_passing(error):
            raise error
        log.warning("VMI not created", extra={"facts": {"vm": vm.metadata.name, "error": str(error)}})
        message = f"Error creating virtual machine instance: {error}"
        self._events.record(vm, "Warning", "FailedCreate", message)
        for action in plan_create_failure(vm, message, self._clock.now()).actions:
            self._do(vm, action)

    def _delete(self, vm: VirtualMachine, planned: VirtualMachineInstance) -> None:
        """End the VMI as it was last seen: a step before in the same plan may have changed it.

        The version must still be that one. A garbage collector that orphans takes the owner from the VMI first and its
        own finalizer from the VM afterwards; seen in the other order, this would end a guest that was to go on.
        """
        meta = planned.metadata
        seen = self._vmis.get(meta.namespace, meta.name)
        if seen is None or seen.metadata.uid != meta.uid:
            return
        if not is_owned(seen, vm):
            raise Conflict(409, "Conflict", "the VMI belongs to another")
        as_seen = Preconditions(uid=meta.uid, resource_version=seen.metadata.resource_version)
        try:
            left = self._client.delete(VirtualMachineInstance, meta.namespace, meta.name, as_seen)
        except NotFound:
            return
        if left is not None:
            self._vmis.observe(left)
        message = f"Stopped the virtual machine by deleting the virtual machine instance {meta.uid}"
        self._events.record(vm, "Normal", "SuccessfulDelete", message)
