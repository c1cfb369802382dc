"""The claims of a VMI as volumes of its launcher's Pod: a mount for a file system, a device node for a block volume.

Called by the Pod's volumes. Pure. Hotplugged volumes are left out: an attachment Pod brings them.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvedge.controller.vmi.launcher_pod.pod_volume_names import free_name
from kvedge.resources.disks.state_claims import own_volumes
from kvedge.resources.disks.volume_facts import claim_directory, claim_of, device_path, is_hotpluggable
from kvedge.resources.types.core import PersistentVolumeClaimVolume, PodVolume, VolumeDevice, VolumeMount
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume

MountedClaim = tuple[PodVolume, VolumeMount | VolumeDevice]


def make_mounted_claims(
    vmi: VirtualMachineInstance, claims: Mapping[str, PersistentVolumeClaim], taken: set[str]
) -> list[MountedClaim]:
    """Each volume with a claim of its own, in the VMI's order, and the claim for the VM's own state.

    `claims` are those that there are, by name; `taken` are the names of the Pod's other volumes. A claim that is not
    there counts as a file system: its Pod is not created.
    """
    made = []
    for volume in (*vmi.spec.volumes, *own_volumes(vmi)):
        name = claim_of(volume)
        if name is None or is_hotpluggable(volume):
            continue
        claim = claims.get(name)
        read_only = _is_read_only(volume)
        pod_name = free_name(volume.name, taken)
        source = PersistentVolumeClaimVolume(claim_name=name, read_only=read_only)
        place: VolumeMount | VolumeDevice
        if claim is not None and claim.is_block:
            place = VolumeDevice(name=pod_name, device_path=device_path(volume.name))
        else:
            place = VolumeMount(name=pod_name, mount_path=claim_directory(volume.name), read_only=read_only)
        made.append((PodVolume(name=pod_name, persistent_volume_claim=source), place))
    return made


def _is_read_only(volume: Volume) -> bool:
    source = volume.persistent_volume_claim
    if volume.ephemeral is not None:
        source_below = volume.ephemeral.persistent_volume_claim
        return source_below is not None and source_below.read_only
    return source is not None and source.read_only
