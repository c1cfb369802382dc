"""What roles must know of a VMI's volumes in the same way: the claim of a volume, and its place in the launcher Pod.

Called by the controller, the handler and the launcher's preparation. Pure. The paths are KubeVirt's, as its users'
tools know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kvedge.resources.disks.claim_places import DEVICE_DIRECTORY, IMAGE_FILE, claim_directory, device_path
from kvedge.resources.disks.hotplug_places import HOTPLUG_DIRECTORY, hotplug_path
from kvedge.resources.names import PRIVATE_DIRECTORY
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import HostDisk, PersistentVolumeClaimSource, Volume

__all__ = [
    "DEVICE_DIRECTORY",
    "HOTPLUG_DIRECTORY",
    "IMAGE_FILE",
    "claim_directory",
    "claim_of",
    "claims",
    "device_path",
    "hotplug_path",
    "hotplugged_disks",
    "hotplugged_volumes",
    "is_hotpluggable",
    "utility_volumes",
]

# Kinds of hostDisk: the file is there, or it is made when it is absent.
DISK: Final = "Disk"
DISK_OR_CREATE: Final = "DiskOrCreate"
CONFIG_MAP_DIRECTORY: Final = f"{PRIVATE_DIRECTORY}/config-map"
SECRET_DIRECTORY: Final = f"{PRIVATE_DIRECTORY}/secret"
SERVICE_ACCOUNT_DIRECTORY: Final = f"{PRIVATE_DIRECTORY}/service-account"
DOWNWARD_API_DIRECTORY: Final = f"{PRIVATE_DIRECTORY}/downwardapi"
SYSPREP_DIRECTORY: Final = f"{PRIVATE_DIRECTORY}/sysprep"

# The label of the attachment Pods of hotplugged volumes; places in them are in `hotplug_places`.
ATTACHMENT_APP: Final = "hotplug-disk"


def claim_of(volume: Volume) -> str | None:
    """The name of the claim below a volume: its own, that of its DataVolume, or the one below an ephemeral layer."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.data_volume is not None:
        # A DataVolume's claim has its name.
        return volume.data_volume.name
    if volume.ephemeral is not None and volume.ephemeral.persistent_volume_claim is not None:
        return volume.ephemeral.persistent_volume_claim.claim_name
    if volume.memory_dump is not None:
        return volume.memory_dump.claim_name
    return None


def lasting_claim(volume: Volume) -> str | None:
    """The claim of a volume that keeps what its guest writes, of which a snapshot holds a copy."""
    return None if volume.ephemeral is not None or is_memory_dump(volume) else claim_of(volume)


def is_memory_dump(volume: Volume) -> bool:
    """Whether the volume takes a dump of the guest's memory, and so is no disk of the guest."""
    return volume.memory_dump is not None


def is_hotpluggable(volume: Volume) -> bool:
    """Whether the volume comes by an attachment Pod, and so is no part of the launcher's Pod; it stays so for good."""
    source = volume.persistent_volume_claim or volume.data_volume
    return is_memory_dump(volume) or (source is not None and source.hotpluggable)


def claims(volumes: Iterable[Volume]) -> Iterator[tuple[Volume, str]]:
    """The volumes that have a claim, and its name."""
    for volume in volumes:
        name = claim_of(volume)
        if name is not None:
            yield volume, name


def hotplugged_disks(vmi: VirtualMachineInstance) -> list[Volume]:
    """The volumes that come and go while the guest runs, and are disks of it."""
    return [volume for volume in vmi.spec.volumes if is_hotpluggable(volume) and not is_memory_dump(volume)]


def utility_volumes(vmi: VirtualMachineInstance) -> list[Volume]:
    """The volumes that come to the guest's launcher and that the guest does not get: copies of its disks go there."""
    return [
        Volume(
            name=each.name,
            persistent_volume_claim=PersistentVolumeClaimSource(claim_name=each.claim_name, hotpluggable=True),
        )
        for each in vmi.spec.utility_volumes
    ]


def hotplugged_volumes(vmi: VirtualMachineInstance) -> list[Volume]:
    """The volumes that come and go while the guest runs: disks of it, places for dumps of its memory, copies."""
    return [*(volume for volume in vmi.spec.volumes if is_hotpluggable(volume)), *utility_volumes(vmi)]


def host_place(disk: HostDisk) -> tuple[str, str]:
    """The directory of the host that the Pod has, and the file in it.

    >>> host_place(HostDisk(path="/srv/vms/web.img", type=DISK))
    ('/srv/vms', 'web.img')
    """
    directory, _, file = disk.path.rpartition("/")
    return directory or "/", file
