"""What roles must know of a claim in the same way: whether it holds what it is to hold.

Called by the controller's plans of VMIs, of hotplugged volumes, of clones and of DataSources. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.data_volume_names import CDI_GROUP, POD_PHASE, UPLOAD_TARGET
from kvedge.resources.types.storage import PersistentVolumeClaim

# kvedge, CDI, and CDI for a clone say by one of these annotations that a DataVolume's claim is full.
_FILLED: Final = ((POD_PHASE, "Succeeded"), (f"{CDI_GROUP}/clonePhase", "Succeeded"), ("k8s.io/CloneOf", "true"))


def is_of_data_volume(claim: PersistentVolumeClaim) -> bool:
    """Whether a DataVolume has made the claim, or has taken it over."""
    owner = claim.metadata.controller_reference()
    return owner is not None and owner.kind == "DataVolume"


def is_upload_target(claim: PersistentVolumeClaim) -> bool:
    """Whether `image-upload pvc` made the claim or marked it, and nothing else is to fill it."""
    if UPLOAD_TARGET not in claim.metadata.annotations or claim.metadata.controller_reference() is not None:
        return False
    return claim.spec.data_source is None and claim.spec.data_source_ref is None


def waits_for_upload(claim: PersistentVolumeClaim) -> bool:
    """Whether nothing is in the claim until somebody has uploaded that."""
    return is_upload_target(claim) and claim.metadata.annotations.get(POD_PHASE) != "Succeeded"


def is_populated(claim: PersistentVolumeClaim) -> bool:
    """Whether nobody fills the claim any more: an image that is half there is no disk."""
    if waits_for_upload(claim):
        return False
    if not is_of_data_volume(claim):
        return True
    if claim.spec.data_source_ref is not None or claim.spec.data_source is not None:
        # CDI fills another claim and hands its volume over, and a driver fills the volume of a snapshot as it makes
        # it: this claim is bound when it is full, and no Pod runs before.
        return True
    return any(claim.metadata.annotations.get(key) == value for key, value in _FILLED)
