"""Brings one VirtualMachineInstanceReplicaSet after the other to its number of VMIs.

Run by the controller role. Reads sets and VMIs from informers, asks :mod:`kvedge.controller.replicas.replica_plan`,
does what it says. The answer of each write goes into the cache, so that the next count has it. What a lost answer did
is asked for before the next count; VMIs have names that a second try finds taken.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from msgspec import Struct

from kvedge.controller.late_work import LateWork
from kvedge.controller.replicas.replica_plan import (
    Adopt,
    Release,
    ReplicaPlan,
    ReplicaView,
    is_active,
    is_ready,
    plan_claims,
    plan_replicas,
    selector_fault,
    selector_in_use,
)
from kvedge.controller.replicas.replica_status import (
    FAILED_CREATE,
    FAILED_DELETE,
    next_status,
    told_change,
)
from kvedge.controller.replicas.replica_writes import ReplicaWrites
from kvedge.controller.scaling_selector import BAD_SELECTOR
from kvedge.controller.scaling_status import FAILURE, gather_seconds, status_body
from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.kube.errors import Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.label_selectors import LabelSelector, selector_of
from kvedge.resources.meta import condition
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_WORKERS: Final = 2
# When the cache turned out to be behind: the watch needs a moment.
_CAUGHT_UP_SECONDS: Final = 0.05
_ORPHANS: Final = "orphans-of-namespace"
_SETS: Final = "sets-of-namespace"


class ReplicaSources(Struct, frozen=True):
    """The informers and writers that the loop works with."""

    client: KubeClient
    replica_sets: Informer[VirtualMachineInstanceReplicaSet]
    vmis: Informer[VirtualMachineInstance]
    events: EventRecorder
    clock: Clock


def make_replica_work(
    client: KubeClient, vmis: Informer[VirtualMachineInstance], events: EventRecorder, clock: Clock
) -> LateWork:
    """What keeps ReplicaSets. `vmis` is started and stopped by others, and has not been started yet."""
    sets = Informer(client, VirtualMachineInstanceReplicaSet)
    return LateWork("replicas", (sets,), (vmis,), ReplicaLoop(ReplicaSources(client, sets, vmis, events, clock)))


class ReplicaLoop:
    """One reconcile loop over all ReplicaSets."""

    def __init__(self, sources: ReplicaSources) -> None:
        """The informers have not been started yet."""
        self._client = sources.client
        self._sets = sources.replica_sets
        self._vmis = sources.vmis
        self._events = sources.events
        self._clock = sources.clock
        self._patience = CreatePatience(sources.clock.monotonic)
        self._writes = ReplicaWrites(sources.client, sources.vmis, sources.events)
        self._vmis.add_index(_ORPHANS, _orphan_of)
        self._sets.add_index(_SETS, lambda item: (item.metadata.namespace,))
        self.loop = ReconcileLoop("replicas", self.reconcile, _WORKERS)
        self._sets.on_change(self._on_set)
        self._vmis.on_change(self._on_vmi)

    def stop(self) -> None:
        """End the workers."""
        self.loop.stop()
        self._writes.close()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one set."""
        replica_set = self._sets.get(*key)
        if replica_set is None:
            return None
        selector = selector_in_use(replica_set)
        if selector is None:
            self._report(replica_set, None, (BAD_SELECTOR, selector_fault(replica_set)))
            return None
        self._writes.ask_about_unsure(replica_set)
        if not self._claim(replica_set, selector):
            return Again(_CAUGHT_UP_SECONDS)
        plan = plan_replicas(self._view(replica_set), lambda name: self._vmis.get(key.namespace, name) is not None)
        wait = self._patience.count_seconds_left(replica_set.metadata.uid, replica_set.metadata.generation)
        failed = self._carry_out(replica_set, plan, waits=wait > 0)
        return self._end_pass(replica_set, selector, plan, failed, wait if plan.create else 0.0)

    def _end_pass(
        self,
        replica_set: VirtualMachineInstanceReplicaSet,
        selector: LabelSelector,
        plan: ReplicaPlan,
        failed: tuple[str, KubeError] | None,
        wait: float,
    ) -> Again | None:
        """Write the status down; when to come back."""
        told: tuple[str, str] | None = None
        if failed is not None and not _is_to_repeat(failed[1]):
            told = (failed[0], str(failed[1]))
        elif wait > 0 and (known := condition(replica_set.status.conditions, FAILURE)) is not None:
            told = (known.reason, known.message)
        self._report(replica_set, selector, told)
        if failed is None:
            return Again(wait) if wait > 0 else Again(0) if plan.goes_on else None
        reason, error = failed
        if _is_to_repeat(error):
            raise error
        uid, generation = replica_set.metadata.uid, replica_set.metadata.generation
        return Again(self._patience.note_refusal(uid, generation)) if reason == FAILED_CREATE else _raise(error)

    def _view(self, replica_set: VirtualMachineInstanceReplicaSet) -> ReplicaView:
        meta = replica_set.metadata
        # An owner is in the namespace of what it owns, whatever a reference says.
        owned = [vmi for vmi in self._vmis.find_owned_by(meta.uid) if vmi.metadata.namespace == meta.namespace]
        ended = self._writes.find_ended(meta.uid, [vmi.metadata.uid for vmi in owned])
        orphans = self._vmis.find_indexed(_ORPHANS, meta.namespace)
        return ReplicaView(replica_set, owned, orphans, ended, self._writes.maybe_made(meta.uid))

    def _claim(self, replica_set: VirtualMachineInstanceReplicaSet, selector: LabelSelector) -> bool:
        """Become and cease to be the owner of VMIs; whether the set is still what the cache says."""
        claims = plan_claims(self._view(replica_set), selector)
        if any(isinstance(claim, Adopt) for claim in claims) and not self._stays(replica_set):
            return False
        for claim in claims:
            self._patch_owners(claim)
        return True

    def _patch_owners(self, claim: Adopt | Release) -> None:
        meta = claim.vmi.metadata
        patch = at_version(claim.body, meta.resource_version)
        try:
            self._vmis.observe(self._client.patch(VirtualMachineInstance, meta.namespace, meta.name, patch))
        except NotFound:
            return

    def _stays(self, replica_set: VirtualMachineInstanceReplicaSet) -> bool:
        """Whether the server has the set, and nobody deletes it: asked anew, as the cache may be behind."""
        meta = replica_set.metadata
        try:
            found = self._client.get(VirtualMachineInstanceReplicaSet, meta.namespace, meta.name)
        except NotFound:
            return False
        self._sets.observe(found)
        return found.metadata.uid == meta.uid and found.metadata.deletion_timestamp is None

    def _carry_out(
        self, replica_set: VirtualMachineInstanceReplicaSet, plan: ReplicaPlan, *, waits: bool
    ) -> tuple[str, KubeError] | None:
        """Make and delete; the first refusal, with its reason."""
        first: tuple[str, KubeError] | None = None
        if not waits:
            refused = self._writes.in_batches(plan.create, partial(self._writes.create, replica_set))
            if refused is None:
                self._patience.forget(replica_set.metadata.uid)
            else:
                first = (FAILED_CREATE, refused)
        stopped = "Stopped the virtual machine by deleting the virtual machine instance"
        for vmis, words in ((plan.delete, stopped), (plan.clean, "Deleted finished virtual machine:")):
            kept = self._writes.in_batches(vmis, partial(self._writes.delete, replica_set, words))
            if kept is not None and first is None:
                first = (FAILED_DELETE, kept)
        return first

    def _report(
        self,
        replica_set: VirtualMachineInstanceReplicaSet,
        selector: LabelSelector | None,
        failure: tuple[str, str] | None,
    ) -> None:
        status = next_status(replica_set, self._view(replica_set).active, selector, failure, self._clock.now())
        body = status_body(replica_set, status)
        if not body:
            return
        meta = replica_set.metadata
        patch = at_version(body, meta.resource_version)
        try:
            written = self._client.patch(VirtualMachineInstanceReplicaSet, meta.namespace, meta.name, patch, "status")
        except NotFound:
            return
        self._sets.observe(written)
        told = told_change(replica_set, status)
        if told is not None:
            self._events.record(replica_set, "Normal", *told)

    def _on_set(
        self, old: VirtualMachineInstanceReplicaSet | None, new: VirtualMachineInstanceReplicaSet | None
    ) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._writes.forget(item.metadata.uid)
            self._patience.forget(item.metadata.uid)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        if _counts_alike(old, new):
            return
        is_gathered = _counts_alike(old, new, but_ready=True)
        for key in {key for item in (old, new) if item is not None for key in self._sets_of(item)}:
            if is_gathered:
                found = self._sets.get(*key)
                self.loop.queue.add_after(key, gather_seconds(None if found is None else found.spec.replicas))
            else:
                self.loop.add(key)

    def _sets_of(self, vmi: VirtualMachineInstance) -> list[Key]:
        """The set that owns it, or those that would adopt it."""
        owner, namespace = vmi.metadata.controller_reference(), vmi.metadata.namespace
        if owner is not None:
            is_set = owner.kind == VirtualMachineInstanceReplicaSet.KIND.kind
            return [Key(namespace, owner.name)] if is_set else []
        return [
            Key(namespace, item.metadata.name)
            for item in self._sets.find_indexed(_SETS, namespace)
            if item.spec.selector is not None and selector_of(item.spec.selector).matches(vmi.metadata.labels)
        ]


def _orphan_of(vmi: VirtualMachineInstance) -> tuple[str, ...]:
    return () if vmi.metadata.controller_reference() is not None else (vmi.metadata.namespace,)


def _counts_alike(
    old: VirtualMachineInstance | None, new: VirtualMachineInstance | None, *, but_ready: bool = False
) -> bool:
    """Whether a change of a VMI is none for its set: nearly all changes of a status are not."""
    if old is None or new is None:
        return False
    return all(
        (
            old.metadata.labels == new.metadata.labels,
            old.metadata.controller_reference() == new.metadata.controller_reference(),
            old.metadata.deletion_timestamp == new.metadata.deletion_timestamp,
            is_active(old) == is_active(new),
            but_ready or is_ready(old) == is_ready(new),
        )
    )


def _is_to_repeat(error: KubeError) -> bool:
    """Whether the server has judged nothing: it was busy, or the cache behind."""
    return isinstance(error, Conflict) or is_passing(error)


def _raise(error: KubeError) -> Again:
    raise error
