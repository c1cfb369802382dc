"""How a claim grows: what is to be done next when it asks for more than its volume has. Pure.

Called by the claims' loop. First the claim says that it grows, then the volume does, and only then does the claim have
more: guests are shown a larger disk by what the claim has.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.values.quantities import format_bytes
from kvedge.standalone.volumes.claim_plan import Tell
from kvedge.standalone.volumes.volume_manifest import volume_size
from kvedge.standalone.volumes.volume_matching import amount_of, capacity, count_requested, is_for
from kvedge.standalone.volumes.volume_plan import is_ours
from kvedge.standalone.volumes.volume_words import BIND_COMPLETED

RESIZING = "Resizing"


class BeginGrowth(Struct, frozen=True):
    """The claim says that it grows, and to how many bytes."""

    size: int


class GrowVolume(Struct, frozen=True):
    """The volume becomes so large, on disk and then in its object."""

    volume: PersistentVolume
    size: int


class EndGrowth(Struct, frozen=True):
    """The claim has what its volume has."""

    size: int


GrowthStep: TypeAlias = BeginGrowth | GrowVolume | EndGrowth | Tell


def plan_growth(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> tuple[GrowthStep, ...]:
    """The next steps of a claim that is bound to this volume; none when it has what it asks for."""
    if volume is None or claim.status.phase != "Bound" or BIND_COMPLETED not in claim.metadata.annotations:
        return ()
    if not is_for(volume, claim) or claim.metadata.deletion_timestamp is not None:
        return ()
    has, growing = capacity(volume), condition(claim.status.conditions, RESIZING) is not None
    if count_requested(claim) > has:
        if not is_ours(volume):
            text = (
                "Ignoring the PVC: didn't find a plugin capable of expanding the volume; waiting for an external "
                "controller to process this PVC."
            )
            return (Tell("Warning", "ExternalExpanding", text),)
        size = volume_size(count_requested(claim))
        begin = () if growing and amount_of(claim.status.allocated_resources) == size else (BeginGrowth(size),)
        return (*begin, GrowVolume(volume, size))
    if growing or amount_of(claim.status.capacity) < has:
        return (EndGrowth(int(has)),)
    return ()


def growth_status(size: int, moment: str) -> JsonObject:
    """The status of a claim that grows to so many bytes since that moment."""
    resizing = {"type": RESIZING, "status": "True", "lastTransitionTime": moment}
    return {"conditions": [resizing], "allocatedResources": {"storage": format_bytes(size)}}


def make_grown_status(size: int) -> JsonObject:
    """The status of a claim that has grown to so many bytes."""
    amount = {"storage": format_bytes(size)}
    return {"conditions": [], "capacity": amount, "allocatedResources": amount}
