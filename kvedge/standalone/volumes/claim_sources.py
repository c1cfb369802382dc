"""What a claim is to be filled with as its volume is made: another claim, a snapshot, or nothing. Pure.

Called by the claim plan, the provisioner and the loops of snapshots.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.protection.volume_snapshots import VOLUME_SNAPSHOT_GROUP, VolumeSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim


def source_claim(claim: PersistentVolumeClaim) -> str:
    """The claim in the same namespace whose content is wanted; empty when there is none."""
    return _name(claim, "", PersistentVolumeClaim.KIND.kind)


def snapshot_of(claim: PersistentVolumeClaim) -> str:
    """The VolumeSnapshot in the same namespace whose content is wanted; empty when there is none."""
    return _name(claim, VOLUME_SNAPSHOT_GROUP, VolumeSnapshot.KIND.kind)


def is_filled_elsewhere(claim: PersistentVolumeClaim) -> bool:
    """Whether a populator fills it: its source is of a kind that no volume of ours is made of."""
    return bool(_source(claim)) and not source_claim(claim) and not snapshot_of(claim)


def source_kind(claim: PersistentVolumeClaim) -> tuple[str, str]:
    """API group and kind of what it is to be filled with; both empty when it is to be empty."""
    source = _source(claim) or {}
    return source.get("apiGroup") or "", source.get("kind") or ""


def names_other_namespace(claim: PersistentVolumeClaim) -> bool:
    """Whether its source is in another namespace, by its own word."""
    source = claim.spec.data_source_ref or {}
    return source.get("namespace") not in (None, "", claim.metadata.namespace)


def _name(claim: PersistentVolumeClaim, group: str, kind: str) -> str:
    return str((_source(claim) or {}).get("name") or "") if source_kind(claim) == (group, kind) else ""


def _source(claim: PersistentVolumeClaim) -> JsonObject | None:
    return claim.spec.data_source_ref or claim.spec.data_source
