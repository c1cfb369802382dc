"""Hotplugged volumes as sources of disks: what the handler has put into the Pod, for a domain that starts or runs.

Called by `vmi_preparation` and by `hotplug`'s process of documents. Looks at the files; makes none.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from kvedge.launcher.disks.disk_facts import direct_io_works
from kvedge.launcher.disks.handed_over import is_handed_over
from kvedge.launcher.domain.context import DiskSource
from kvedge.resources.hotplug_places import HANDED_OVER, hotplug_path, is_block
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.volume_facts import hotplugged

# Of st_blocks, whatever the file system's blocks are.
_BLOCK: Final = 512


def hotplug_source(vmi: VirtualMachineInstance, name: str, root: str) -> DiskSource:
    """A hotplugged volume, which is always raw.

    Raises:
        OSError: when it cannot be opened.
    """
    claim = next((item.persistent_volume_claim_info for item in vmi.status.volume_status if item.name == name), None)
    block = claim is not None and is_block(claim.volume_mode)
    path = root + hotplug_path(name, block=block)
    found = os.lstat(path)
    return DiskSource(
        path=path,
        format="raw",
        block=block,
        direct_io_ok=direct_io_works(path),
        preallocated=not block and found.st_blocks * _BLOCK >= found.st_size,
        thick=claim is not None and claim.preallocated,
    )


def with_present_volumes(
    vmi: VirtualMachineInstance, root: str
) -> tuple[VirtualMachineInstance, dict[str, DiskSource]]:
    """A VMI that starts, without the hotplugged volumes that are not there, and those that are.

    A disk of one that is missing is left out, and comes when it does; a CD-ROM drive is empty till then.
    """
    sources: dict[str, DiskSource] = {}
    missing: set[str] = set()
    for volume in hotplugged(vmi):
        if _is_there(vmi, volume.name, root):
            sources[volume.name] = hotplug_source(vmi, volume.name, root)
        else:
            missing.add(volume.name)
    coming = missing | sources.keys()
    if not coming:
        return vmi, sources
    devices = vmi.spec.domain.devices
    disks = [disk for disk in devices.disks if disk.name not in missing or disk.cdrom is not None]
    domain = msgspec.structs.replace(vmi.spec.domain, devices=msgspec.structs.replace(devices, disks=disks))
    volumes = [volume for volume in vmi.spec.volumes if volume.name not in coming]
    return msgspec.structs.replace(vmi, spec=msgspec.structs.replace(vmi.spec, domain=domain, volumes=volumes)), sources


def _is_there(vmi: VirtualMachineInstance, name: str, root: str) -> bool:
    for entry in vmi.status.volume_status:
        if entry.name == name and entry.phase in HANDED_OVER:
            claim = entry.persistent_volume_claim_info
            block = claim is not None and is_block(claim.volume_mode)
            return is_handed_over(root + hotplug_path(name, block=block), block=block)
    return False
