"""What a VMI's status keeps of a claim: handler and launcher decide from this copy, and never ask for the claim.

Made for volumes of VMs and VMIs, for hotplugged ones, and for claims that a guest is to come to. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.disks.filesystem_overhead import filesystem_overhead
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import ClaimInfo

# Of a block volume.
_NO_OVERHEAD: Final = "0"
# CDI's word, and that of provisioners, for a claim whose every block is allocated on purpose: parts of keys.
_PREALLOCATED: Final = ("/storage.preallocation", "/storage.thick-provisioned")


def claim_info(claim: PersistentVolumeClaim, cdi: CdiConfig | None, earlier: ClaimInfo | None) -> ClaimInfo:
    """The copy of a claim; `earlier` is the last one, whose overhead stays while the CDIConfig is not known."""
    return ClaimInfo(
        claim_name=claim.metadata.name,
        access_modes=claim.spec.access_modes,
        volume_mode=claim.spec.volume_mode or "Filesystem",
        capacity=claim.status.capacity,
        requests=claim.spec.resources.requests,
        preallocated=_is_preallocated(claim),
        filesystem_overhead=_overhead(claim, cdi, earlier),
    )


def _overhead(claim: PersistentVolumeClaim, cdi: CdiConfig | None, earlier: ClaimInfo | None) -> str | None:
    """None while it is not known: a launcher then leaves a disk as large as it is, as a disk never shrinks again."""
    if claim.is_block:
        return _NO_OVERHEAD
    if cdi is not None:
        return filesystem_overhead(cdi, claim.spec.storage_class_name)
    return earlier.filesystem_overhead if earlier is not None and earlier.claim_name == claim.metadata.name else None


def _is_preallocated(claim: PersistentVolumeClaim) -> bool:
    return any(
        value == "true" and any(part in key for part in _PREALLOCATED)
        for key, value in claim.metadata.annotations.items()
    )
