"""A VMI's `status.volumeStatus` as far as the controller knows it: the volumes, and a copy of each one's claim.

Called by the VMI's status. Pure. Handler and launcher decide from the copy and never ask for the claim, so that it is
kept true as long as the VMI lives; a claim that is gone leaves its last copy, as the guest still has the disk.
"""

from __future__ import annotations

import msgspec

from kvedge.controller.claim_copy import claim_info
from kvedge.controller.local_path_rules import LIMITED, limits_of
from kvedge.controller.vmi.claim_rules import ClaimView
from kvedge.resources.disks.state_claims import state_volumes
from kvedge.resources.disks.volume_facts import claim_of, is_hotpluggable
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance, VolumeStatus


def with_claims(vmi: VirtualMachineInstance, view: ClaimView) -> list[VolumeStatus]:
    """The entries that there are, with claims as they are now, and one for each permanent volume that had none.

    Hotplugged volumes get their entries from those who bring them.
    """
    entries = {entry.name: entry for entry in vmi.status.volume_status}
    for volume in (*vmi.spec.volumes, *state_volumes(vmi)):
        if is_hotpluggable(volume) and volume.name not in entries:
            continue
        entry = entries.get(volume.name) or VolumeStatus(name=volume.name, target="")
        claim = view.found.get(claim_of(volume) or "")
        held = entry.persistent_volume_claim_info
        if is_hotpluggable(volume) and held is not None and held.claim_name not in ("", claim_of(volume)):
            # The guest still has the disk of another claim under this name.
            continue
        if claim is not None:
            info = claim_info(claim, view.cdi, held)
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
