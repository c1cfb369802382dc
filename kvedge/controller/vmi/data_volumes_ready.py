"""The VMI's condition DataVolumesReady, as scripts wait for it.

Called by the VMI's status. Pure. It is told by the claims, which say the same for kvedge's and for CDI's DataVolumes; a
VMI without DataVolumes does not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.disks.claim_facts import is_of_data_volume, is_populated
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.meta import Condition
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance

DATA_VOLUMES_READY: Final = "DataVolumesReady"


def data_volumes_ready(vmi: VirtualMachineInstance, found: Mapping[str, PersistentVolumeClaim]) -> Condition | None:
    """The condition, from the claims that there are by name; None when no volume is a DataVolume."""
    states = [
        claim is not None and claim.status.phase == "Bound" and is_populated(claim)
        for volume, claim in ((volume, found.get(name)) for volume, name in claims(vmi.spec.volumes))
        if volume.data_volume is not None or (claim is not None and is_of_data_volume(claim))
    ]
    if not states:
        return None
    if all(states):
        text = "All of the VMI's DVs are bound and ready"
        return Condition(type=DATA_VOLUMES_READY, status="True", reason="AllDVsReady", message=text)
    text = "Not all of the VMI's DVs are ready"
    return Condition(type=DATA_VOLUMES_READY, status="False", reason="NotAllDVsReady", message=text)
