"""The directories of hostDisk volumes as volumes of the launcher's Pod.

Called by the Pod's volumes. Pure. The Pod has each directory whole, as a file that is not there cannot be mounted.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.vmi.launcher_pod.pod_volume_names import free_name
from kvedge.resources.disks.volume_facts import DISK_OR_CREATE, claim_directory, host_place
from kvedge.resources.types.core import HostPathVolume, PodVolume, VolumeMount
from kvedge.resources.types.vmi import VirtualMachineInstance

_KINDS: Final = {True: "DirectoryOrCreate", False: "Directory"}


def make_mounted_host_disks(vmi: VirtualMachineInstance, taken: set[str]) -> list[tuple[PodVolume, VolumeMount]]:
    """Each hostDisk's directory, in the VMI's order; `taken` are the names of the Pod's other volumes."""
    made = []
    for volume in vmi.spec.volumes:
        disk = volume.host_disk
        if disk is None:
            continue
        directory, _ = host_place(disk)
        name = free_name(volume.name, taken)
        source = HostPathVolume(path=directory, type=_KINDS[disk.type == DISK_OR_CREATE])
        mount = VolumeMount(name=name, mount_path=claim_directory(volume.name))
        made.append((PodVolume(name=name, host_path=source), mount))
    return made
