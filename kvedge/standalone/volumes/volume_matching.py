"""Which volume suits a claim, and which class a claim has: Kubernetes' rules. Pure.

Called by the plans and by the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.default_class import ClassSeen, default_class_name
from kvedge.resources.types.core import Node
from kvedge.resources.types.storage import FILESYSTEM, PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_quantity
from kvedge.standalone.label_matching import selector_matches, terms_match
from kvedge.standalone.volumes.volume_words import WAIT_FOR_FIRST_CONSUMER


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """The class that claims without a word get: of several the newest, of equally old ones the first by name."""
    known = {item.metadata.name: item for item in classes}
    name = default_class_name(ClassSeen.of(item.metadata) for item in known.values())
    return None if name is None else known[name]


def waits_for_consumer(storage_class: StorageClass | None) -> bool:
    """Whether claims of a class are bound when a Pod uses them."""
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def count_requested(claim: PersistentVolumeClaim) -> Fraction:
    """How many bytes a claim asks for; what cannot be read asks for nothing, as admission has refused it."""
    return amount_of(claim.spec.resources.requests)


def capacity(volume: PersistentVolume) -> Fraction:
    """How many bytes a volume has."""
    return amount_of(volume.spec.capacity)


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume's claimRef names this claim, with its UID or with none yet."""
    ref = volume.spec.claim_ref
    return (
        ref is not None
        and (ref.namespace, ref.name) == (claim.metadata.namespace, claim.metadata.name)
        and ref.uid in ("", claim.metadata.uid)
    )


def unsuitable(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a volume cannot serve a claim, whoever wants them together; empty when it can."""
    if (volume.spec.volume_mode or FILESYSTEM) != (claim.spec.volume_mode or FILESYSTEM):
        return "volumeMode does not match"
    if volume.spec.storage_class_name != (claim.spec.storage_class_name or ""):
        return "storageClassName does not match"
    if capacity(volume) < count_requested(claim):
        return "requested PV is too small"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "accessModes do not match"
    return ""


def best_match(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], node: Node | None
) -> PersistentVolume | None:
    """The volume to bind a claim to: the one that is kept for it, or the smallest free one that suits."""
    free: list[PersistentVolume] = []
    for volume in volumes:
        if volume.metadata.deletion_timestamp is not None or unsuitable(volume, claim):
            continue
        if is_for(volume, claim):
            return volume
        if volume.spec.claim_ref is None and volume.status.phase == "Available" and _selects(claim, volume):
            free.append(volume)
    reachable = [volume for volume in free if node is None or is_reachable(volume, node)]
    return min(reachable, key=lambda item: (capacity(item), item.metadata.name), default=None)


def is_reachable(volume: PersistentVolume, node: Node) -> bool:
    """Whether a volume's node affinity lets it be used on a node."""
    required = (volume.spec.node_affinity or {}).get("required")
    terms = required.get("nodeSelectorTerms") if isinstance(required, Mapping) else None
    return terms is None or terms_match(terms, node)


def _selects(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    selector: JsonObject | None = claim.spec.selector
    return selector is None or selector_matches(selector, volume.metadata.labels)


def amount_of(amounts: Mapping[str, Quantity]) -> Fraction:
    """The bytes of storage among these amounts; what is missing or cannot be read is nothing."""
    try:
        return parse_quantity(amounts.get("storage", 0))
    except QuantityError:
        return Fraction(0)
