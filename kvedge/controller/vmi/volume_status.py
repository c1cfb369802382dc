"""A VMI's `status.volumeStatus` as far as the controller knows it: the volumes, and a copy of each one's claim.

Called by the VMI's status. Pure. Handler and launcher decide from the copy and never ask for the claim, so that it is
kept true as long as the VMI lives; a claim that is gone leaves its last copy, as the guest still has the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kvedge.resources.data_volume_names import DEFAULT_OVERHEAD
from kvedge.resources.disks.volume_facts import claim_of, is_hotpluggable
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import ClaimInfo, VirtualMachineInstance, VolumeStatus

# Of a block volume. File systems have the default, whatever a CDIConfig says: a disk that grows only stays smaller.
_NO_OVERHEAD: Final = "0"
# CDI's word, and that of provisioners, for a claim whose every block is allocated on purpose: parts of keys.
_PREALLOCATED: Final = ("/storage.preallocation", "/storage.thick-provisioned")


def with_claims(vmi: VirtualMachineInstance, claims: Mapping[str, PersistentVolumeClaim]) -> list[VolumeStatus]:
    """The entries that there are, with claims as they are now, and one for each permanent volume that had none.

    Hotplugged volumes get their entries from those who bring them.
    """
    entries = {entry.name: entry for entry in vmi.status.volume_status}
    for volume in vmi.spec.volumes:
        if is_hotpluggable(volume) and volume.name not in entries:
            continue
        entry = entries.get(volume.name) or VolumeStatus(name=volume.name, target="")
        claim = claims.get(claim_of(volume) or "")
        if claim is not None:
            entry = msgspec.structs.replace(entry, persistent_volume_claim_info=claim_info(claim))
        entries[volume.name] = entry
    return sorted(entries.values(), key=lambda entry: entry.name)


def claim_info(claim: PersistentVolumeClaim) -> ClaimInfo:
    """The copy of a claim."""
    return ClaimInfo(
        claim_name=claim.metadata.name,
        access_modes=claim.spec.access_modes,
        volume_mode=claim.spec.volume_mode or "Filesystem",
        capacity=claim.status.capacity,
        requests=claim.spec.resources.requests,
        preallocated=_is_preallocated(claim),
        filesystem_overhead=_NO_OVERHEAD if claim.is_block else DEFAULT_OVERHEAD,
    )


def _is_preallocated(claim: PersistentVolumeClaim) -> bool:
    return any(
        value == "true" and any(part in key for part in _PREALLOCATED)
        for key, value in claim.metadata.annotations.items()
    )
