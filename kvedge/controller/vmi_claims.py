"""VMIs by the claims that they have, wait for or move to: the one index by which loops find them.

Used by the loops of VMIs, of hotplugged volumes and of DataVolumes, and for who has a claim. Pure but for the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.kube.informer import Informer
from kvedge.resources.disks.hotplug_places import HANDED_OVER
from kvedge.resources.disks.moved_volumes import destinations
from kvedge.resources.disks.state_claims import own_volumes
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.types.vmi import VirtualMachineInstance

_INDEX: Final = "claim"


def index_by_claim(vmis: Informer[VirtualMachineInstance]) -> None:
    """Have the index there; each loop that uses it calls this before the informer starts."""
    vmis.add_index(_INDEX, claim_keys)


def vmis_of(vmis: Informer[VirtualMachineInstance], namespace: str, claim: str) -> Sequence[VirtualMachineInstance]:
    """The VMIs that name a claim, take their data to it, or still have it by an attachment Pod."""
    return vmis.find_indexed(_INDEX, f"{namespace}/{claim}")


def claim_keys(vmi: VirtualMachineInstance) -> tuple[str, ...]:
    """Namespace and name of each claim of a VMI."""
    coming = {claim.claim_name for claim in destinations(vmi).values()}
    brought = {volume.claim_name for volume in vmi.spec.utility_volumes}
    names = (
        {name for _, name in claims([*vmi.spec.volumes, *own_volumes(vmi)])}
        | find_hotplugged_claims(vmi)
        | coming
        | brought
    )
    return tuple(f"{vmi.metadata.namespace}/{name}" for name in names)


def find_hotplugged_claims(vmi: VirtualMachineInstance) -> set[str]:
    """The claims that a VMI has by attachment Pods, also those whose volumes are on their way out."""
    return {
        entry.persistent_volume_claim_info.claim_name
        for entry in vmi.status.volume_status
        if entry.hotplug_volume is not None
        and entry.persistent_volume_claim_info is not None
        and (entry.hotplug_volume.attach_pod_name or entry.phase in HANDED_OVER)
    }


def is_moving_to(vmi: VirtualMachineInstance, claim: str) -> bool:
    """Whether the data of one of a VMI's volumes is to come to a claim, or is on its way."""
    return any(found.claim_name == claim for found in destinations(vmi).values())


def has_hotplugged(vmi: VirtualMachineInstance, claim: str) -> bool:
    """Whether a VMI has a claim by an attachment Pod, as far as its status says."""
    return claim in find_hotplugged_claims(vmi)
