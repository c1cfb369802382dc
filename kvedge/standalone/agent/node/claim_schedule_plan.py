"""What the claims of a Pod mean for its place: whether it may be bound, has to wait, or binds claims first. Pure.

Called by the scheduler loop. The messages are those of Kubernetes' volume plugins of the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.storage import (
    READ_WRITE_ONCE_POD,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kvedge.standalone.volumes.claim_users import claims_of
from kvedge.standalone.volumes.volume_matching import is_reachable, waits_for_consumer
from kvedge.standalone.volumes.volume_words import BIND_COMPLETED, SELECTED_NODE


class Storage(Struct, frozen=True):
    """Where claims, volumes and classes are found by namespace and name; each may be missing."""

    claim: Callable[[str, str], PersistentVolumeClaim | None]
    volume: Callable[[str], PersistentVolume | None]
    storage_class: Callable[[str], StorageClass | None]


class ClaimVerdict(Struct):
    """Why a Pod cannot go to the node, and the claims that are bound once they are told the node."""

    reasons: list[str] = field(default_factory=list)
    to_tell: list[PersistentVolumeClaim] = field(default_factory=list)
    # Claims that were told the node, and are not bound yet.
    waits: bool = False


def judge_claims(pod: Pod, node: Node, others: Iterable[Pod], storage: Storage) -> ClaimVerdict:
    """What the claims of `pod` mean for its place on `node` beside `others`."""
    verdict = ClaimVerdict()
    for name in dict.fromkeys(claims_of(pod)):
        claim = storage.claim(pod.metadata.namespace, name)
        if claim is None:
            verdict.reasons.append(f'persistentvolumeclaim "{name}" not found')
        elif claim.metadata.deletion_timestamp is not None:
            verdict.reasons.append(f'persistentvolumeclaim "{name}" is being deleted')
        elif claim.status.phase == "Lost":
            verdict.reasons.append(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume')
        elif claim.spec.volume_name and BIND_COMPLETED in claim.metadata.annotations:
            verdict.reasons += _of_volume(claim, node, storage)
        else:
            _judge_unbound(claim, node, storage, verdict)
    verdict.reasons += _find_lone_claim_reasons(pod, others, storage)
    verdict.reasons = list(dict.fromkeys(verdict.reasons))
    return verdict


def _of_volume(claim: PersistentVolumeClaim, node: Node, storage: Storage) -> list[str]:
    volume = storage.volume(claim.spec.volume_name)
    if volume is None:
        return [f'node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s) of "{claim.metadata.name}"']
    return [] if is_reachable(volume, node) else ["node(s) didn't match PersistentVolume's node affinity"]


def _judge_unbound(claim: PersistentVolumeClaim, node: Node, storage: Storage, verdict: ClaimVerdict) -> None:
    name = claim.spec.storage_class_name
    if not waits_for_consumer(storage.storage_class(name) if name else None):
        verdict.reasons.append("pod has unbound immediate PersistentVolumeClaims")
        return
    verdict.waits = True
    if claim.metadata.annotations.get(SELECTED_NODE) != node.metadata.name:
        verdict.to_tell.append(claim)


def _find_lone_claim_reasons(pod: Pod, others: Iterable[Pod], storage: Storage) -> list[str]:
    namespace = pod.metadata.namespace
    single = set()
    for name in claims_of(pod):
        claim = storage.claim(namespace, name)
        if claim is not None and READ_WRITE_ONCE_POD in claim.spec.access_modes:
            single.add(name)
    for other in others if single else ():
        over = other.status.phase in FINAL_POD_PHASES
        if not over and other.metadata.namespace == namespace and single.intersection(claims_of(other)):
            return ["node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"]
    return []
