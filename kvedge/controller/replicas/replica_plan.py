"""Decides what the controller does about one VirtualMachineInstanceReplicaSet now.

Called by the set's loop. Pure: the set and the VMIs that are seen go in, steps come out. First it is settled which VMIs
are the set's; the number is counted on those alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import Struct

from kvedge.controller.scaling_selector import find_selector_fault
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.state_claims import STATE_CLAIM
from kvedge.resources.label_selectors import LabelSelector, selector_of
from kvedge.resources.meta import ObjectMeta, condition, owner_reference
from kvedge.resources.names import RESERVED_LABELS
from kvedge.resources.replica_names import free_names
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vm import VirtualMachineInstanceTemplate
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.saved_memory import RESUME_MEMORY

# As in KubeVirt: more VMIs than this are not made or deleted at one go.
MOST_AT_ONCE: Final = 250
_TERMINATING: Final = "PodTerminating"


class ReplicaView(Struct, frozen=True):
    """A set and what is seen of its VMIs.

    Attributes:
        replica_set: the set.
        owned: the VMIs of its namespace that it owns.
        orphans: the VMIs of its namespace that nobody owns.
        ended: UIDs of VMIs that were deleted, though the cache still has them.
        maybe_made: names under which VMIs were asked for without an answer.
    """

    replica_set: VirtualMachineInstanceReplicaSet
    owned: Sequence[VirtualMachineInstance] = ()
    orphans: Sequence[VirtualMachineInstance] = ()
    ended: Collection[str] = frozenset()
    maybe_made: Sequence[str] = ()

    @property
    def active(self) -> list[VirtualMachineInstance]:
        """The VMIs that count: they run or are to run."""
        return [vmi for vmi in self.owned if is_active(vmi) and vmi.metadata.uid not in self.ended]

    @property
    def over(self) -> list[VirtualMachineInstance]:
        """The VMIs that do not count any more and that nobody has deleted yet."""
        return [
            vmi
            for vmi in self.owned
            if not is_active(vmi) and vmi.metadata.deletion_timestamp is None and vmi.metadata.uid not in self.ended
        ]


class Adopt(Struct, frozen=True):
    """Become the owner of a VMI that has none, once the server has confirmed that the set exists and stays."""

    vmi: VirtualMachineInstance
    body: JsonObject


class Release(Struct, frozen=True):
    """Own a VMI no more whose labels do not match any more."""

    vmi: VirtualMachineInstance
    body: JsonObject


class ReplicaPlan(Struct, frozen=True):
    """What is to be made and deleted, in this order; `goes_on` when there is more than may be done at one go."""

    create: tuple[VirtualMachineInstance, ...] = ()
    delete: tuple[VirtualMachineInstance, ...] = ()
    clean: tuple[VirtualMachineInstance, ...] = ()
    goes_on: bool = False


def selector_in_use(replica_set: VirtualMachineInstanceReplicaSet) -> LabelSelector | None:
    """The set's selector; None where nothing can be done by it, for which :func:`selector_fault` has the words."""
    selector = replica_set.spec.selector
    return None if selector is None or selector_fault(replica_set) else selector_of(selector)


def selector_fault(replica_set: VirtualMachineInstanceReplicaSet) -> str:
    """Why the set is left alone, which admission refuses, too; empty for one that is kept."""
    template = replica_set.spec.template
    labels = None if template is None else template.metadata.labels
    return find_selector_fault(replica_set.spec.selector, "template", labels, RESERVED_LABELS)


def plan_claims(view: ReplicaView, selector: LabelSelector) -> list[Adopt | Release]:
    """Which VMIs become the set's, and which are its no more; a set that is being deleted leaves all as they are."""
    replica_set = view.replica_set
    if replica_set.metadata.deletion_timestamp is not None:
        return []
    released = [
        Release(vmi, _release_body(vmi, replica_set.metadata.uid))
        for vmi in view.owned
        if not selector.matches(vmi.metadata.labels) and vmi.metadata.deletion_timestamp is None
    ]
    adopted = [
        Adopt(vmi, _adopt_body(vmi, replica_set))
        for vmi in view.orphans
        if selector.matches(vmi.metadata.labels) and vmi.metadata.deletion_timestamp is None
    ]
    return [*released, *adopted]


def plan_replicas(view: ReplicaView, is_taken: Callable[[str], bool]) -> ReplicaPlan:
    """What is to be made and deleted; `is_taken` says whether a VMI of that name is there, whosever it is."""
    replica_set = view.replica_set
    if replica_set.spec.paused or replica_set.metadata.deletion_timestamp is not None:
        return ReplicaPlan()
    active = view.active
    missing = replica_set.replicas - len(active)
    names = free_names(replica_set, min(max(missing, 0), MOST_AT_ONCE), is_taken, view.maybe_made)
    create = tuple(_make(replica_set, name) for name in names)
    delete = tuple(sorted(active, key=_worth)[: min(max(-missing, 0), MOST_AT_ONCE)])
    clean = tuple(view.over[:MOST_AT_ONCE])
    goes_on = abs(missing) > MOST_AT_ONCE or len(view.over) > MOST_AT_ONCE
    return ReplicaPlan(create, delete, clean, goes_on)


def is_active(vmi: VirtualMachineInstance) -> bool:
    """Whether a VMI counts: it has not ended, is not being deleted, and its Pod is not either."""
    ready = condition(vmi.status.conditions, "Ready")
    is_losing_pod = ready is not None and ready.status == "False" and ready.reason == _TERMINATING
    return not (vmi.is_final or vmi.metadata.deletion_timestamp is not None or is_losing_pod)


def is_ready(vmi: VirtualMachineInstance) -> bool:
    """Whether Services send to it."""
    ready = condition(vmi.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


def _worth(vmi: VirtualMachineInstance) -> tuple[object, ...]:
    """By which VMIs go first: without a node, not running, not ready, and then the youngest.

    KubeVirt takes any. The name comes last, so that a plan that is made again is the same.
    """
    age = vmi.metadata.creation_timestamp or ""
    is_placed, runs = bool(vmi.status.node_name), vmi.status.phase == "Running"
    return (is_placed, runs, is_ready(vmi), _reverse(age), vmi.metadata.name)


def _reverse(text: str) -> tuple[int, ...]:
    """A key by which later times come first."""
    return tuple(-ord(character) for character in text)


def _make(replica_set: VirtualMachineInstanceReplicaSet, name: str) -> VirtualMachineInstance:
    template = replica_set.spec.template or VirtualMachineInstanceTemplate()
    return VirtualMachineInstance(
        metadata=ObjectMeta(
            name=name,
            namespace=replica_set.metadata.namespace,
            labels=dict(template.metadata.labels),
            # Its replicas boot: no memory and no TPM is of more than one guest.
            annotations={
                k: v for k, v in template.metadata.annotations.items() if k not in (RESUME_MEMORY, STATE_CLAIM)
            },
            owner_references=[owner_reference(replica_set)],
        ),
        spec=copy.copy(template.spec),
    )


def _adopt_body(vmi: VirtualMachineInstance, replica_set: VirtualMachineInstanceReplicaSet) -> JsonObject:
    owners = [encode(owner) for owner in (*vmi.metadata.owner_references, owner_reference(replica_set))]
    return {"metadata": {"ownerReferences": owners}}


def _release_body(vmi: VirtualMachineInstance, uid: str) -> JsonObject:
    owners = [encode(owner) for owner in vmi.metadata.owner_references if owner.uid != uid]
    return {"metadata": {"ownerReferences": owners}}
