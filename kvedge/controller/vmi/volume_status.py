"""A VMI's `status.volumeStatus` as far as the controller knows it: the volumes, and a copy of each one's claim.

Called by the VMI's status. Pure. Handler and launcher decide from the copy and never ask for the claim, so that it is
kept true as long as the VMI lives; a claim that is gone leaves its last copy, as the guest still has the disk.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kvedge.controller.local_path_rules import LIMITED, limits_of
from kvedge.controller.vmi.claim_rules import ClaimView
from kvedge.resources.disks.filesystem_overhead import filesystem_overhead
from kvedge.resources.disks.volume_facts import claim_of, is_hotpluggable
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import ClaimInfo, VirtualMachineInstance, VolumeStatus

# Of a block volume.
_NO_OVERHEAD: Final = "0"
# CDI's word, and that of provisioners, for a claim whose every block is allocated on purpose: parts of keys.
_PREALLOCATED: Final = ("/storage.preallocation", "/storage.thick-provisioned")


def with_claims(vmi: VirtualMachineInstance, view: ClaimView) -> list[VolumeStatus]:
    """The entries that there are, with claims as they are now, and one for each permanent volume that had none.

    Hotplugged volumes get their entries from those who bring them.
    """
    entries = {entry.name: entry for entry in vmi.status.volume_status}
    for volume in vmi.spec.volumes:
        if is_hotpluggable(volume) and volume.name not in entries:
            continue
        entry = entries.get(volume.name) or VolumeStatus(name=volume.name, target="")
        claim = view.found.get(claim_of(volume) or "")
        if claim is not None:
            info = claim_info(claim, view.cdi, entry.persistent_volume_claim_info)
            entry = msgspec.structs.replace(entry, persistent_volume_claim_info=info)
            if not is_hotpluggable(volume):
                entry = _with_limits(entry, claim)
        entries[volume.name] = entry
    return sorted(entries.values(), key=lambda entry: entry.name)


def _with_limits(entry: VolumeStatus, claim: PersistentVolumeClaim) -> VolumeStatus:
    """What the claim's storage cannot do is told before somebody needs it; nothing else says a word of such a volume.

    A hotplugged volume has the words of its phase there.
    """
    limits = limits_of(claim)
    if limits:
        return msgspec.structs.replace(entry, reason=LIMITED, message=limits)
    return msgspec.structs.replace(entry, reason="", message="") if entry.reason == LIMITED else entry


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
