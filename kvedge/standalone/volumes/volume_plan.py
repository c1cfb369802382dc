"""What to do next for one PersistentVolume: its phase, and what becomes of it once its claim is gone. Pure.

Called by the volumes' loop. Data is erased in one case alone: the claim that had the volume is gone, and the volume's
reclaim policy is Delete.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.standalone.volumes.volume_words import (
    DATA_PROTECTION,
    DELETE,
    PROVISIONED_BY,
    PROVISIONER,
    VOLUME_PROTECTION,
)


class SetPhase(Struct, frozen=True):
    """The volume's phase, and why."""

    phase: str
    message: str = ""


class EraseData(Struct, frozen=True):
    """Take the volume's data away; the loop asks the API itself first whether its claim is gone."""


class DeleteObject(Struct, frozen=True):
    """Delete the volume's object."""


class DropFinalizers(Struct, frozen=True):
    """Nothing keeps the object any more that these stand for."""

    names: tuple[str, ...]


VolumeStep: TypeAlias = SetPhase | EraseData | DeleteObject | DropFinalizers


def is_ours(volume: PersistentVolume) -> bool:
    """Whether kvedge has made a volume, and takes it away."""
    return volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER


def plan_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> tuple[VolumeStep, ...]:
    """The next steps; `claim` is the one that the volume's claimRef names, None when there is none of that name."""
    ref = volume.spec.claim_ref
    phase, deleting = volume.status.phase, volume.metadata.deletion_timestamp is not None
    if ref is None or not ref.uid:
        if deleting:
            return _plan_end(volume)
        return _phase(volume, "Available")
    if claim is not None and claim.metadata.uid == ref.uid:
        return _phase(volume, "Bound")
    if phase not in ("Released", "Failed"):
        # Written down first: from now on nobody binds it.
        return (SetPhase("Released"),)
    if volume.spec.persistent_volume_reclaim_policy == DELETE:
        if is_ours(volume):
            return _plan_end(volume)
        if not deleting:
            text = f'no deletable volume plugin matched: take the data of "{volume.metadata.name}" away by hand'
            return _phase(volume, "Failed", text)
    return _plan_end(volume) if deleting else ()


def _plan_end(volume: PersistentVolume) -> tuple[VolumeStep, ...]:
    steps: list[VolumeStep] = []
    if is_ours(volume) and volume.spec.persistent_volume_reclaim_policy == DELETE:
        steps.append(EraseData())
    if volume.metadata.deletion_timestamp is None:
        steps.append(DeleteObject())
    held = tuple(name for name in (VOLUME_PROTECTION, DATA_PROTECTION) if name in volume.metadata.finalizers)
    if held:
        steps.append(DropFinalizers(held))
    return tuple(steps)


def _phase(volume: PersistentVolume, phase: str, message: str = "") -> tuple[VolumeStep, ...]:
    return () if (volume.status.phase, volume.status.message) == (phase, message) else (SetPhase(phase, message),)
