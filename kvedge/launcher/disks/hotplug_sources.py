"""Hotplugged volumes as sources of disks: what the handler has put into the Pod, for a domain that starts or runs.

Called by `vmi_preparation` and by `hotplug`'s process of documents. Looks at the files; makes none. Has the
monitor hold the devices of a domain that starts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from typing import Final

import msgspec

from kvedge.launcher.disks.device_holder import hold_device
from kvedge.launcher.disks.disk_facts import (
    device_block_size,
    discard_granularity,
    has_direct_io,
    read_block_size,
)
from kvedge.launcher.disks.disk_plan import only_reads
from kvedge.launcher.disks.handed_over import is_handed_over
from kvedge.launcher.domain.context import DiskSource
from kvedge.launcher.launcher_errors import ClaimUnusable
from kvedge.resources.disks.hotplug_places import HANDED_OVER, HOTPLUG_DIRECTORY, hotplug_path, is_block
from kvedge.resources.disks.volume_facts import claim_of, hotplugged_disks
from kvedge.resources.types.vmi import ClaimInfo, VirtualMachineInstance
from kvedge.resources.types.volumes import Volume

log = logging.getLogger(__name__)

# Of st_blocks, whatever the file system's blocks are.
_BLOCK: Final = 512


def find_hotplug_source(vmi: VirtualMachineInstance, name: str, root: str) -> DiskSource:
    """A hotplugged volume, which is always raw.

    Raises:
        OSError: when it cannot be opened.
    """
    claim = _claim(vmi, name)
    block = claim is not None and is_block(claim.volume_mode)
    path = root + hotplug_path(name, block=block)
    found = os.lstat(path)
    block_size, granularity = _block_sizes(path) if block else (read_block_size(path), 0)
    return DiskSource(
        path=path,
        format="raw",
        block=block,
        block_size=block_size,
        discard_granularity=granularity,
        direct_io_ok=has_direct_io(path),
        preallocated=not block and found.st_blocks * _BLOCK >= found.st_size,
        thick=claim is not None and claim.preallocated,
    )


def _block_sizes(path: str) -> tuple[tuple[int, int], int]:
    """The block sizes of a device, and the least that it gives back."""
    device = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return device_block_size(device), discard_granularity(device)
    finally:
        os.close(device)


def with_present_volumes(
    vmi: VirtualMachineInstance, root: str
) -> tuple[VirtualMachineInstance, dict[str, DiskSource]]:
    """A VMI that starts, without the hotplugged volumes that are not there, and those that are.

    A disk of one that is missing is left out, and comes when it does; a CD-ROM drive is empty till then. A disk whose
    device is in use elsewhere is left out as well, and the disk keeper tells of it.

    Raises:
        Unanswered: when the monitor does not say whether it holds a device.
    """
    sources: dict[str, DiskSource] = {}
    missing: set[str] = set()
    for volume in hotplugged_disks(vmi):
        if _is_there(vmi, volume.name, root) and _is_ours(vmi, volume, root):
            sources[volume.name] = find_hotplug_source(vmi, volume.name, root)
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


def check_arrival(vmi: VirtualMachineInstance, found: Collection[str]) -> None:
    """Refuse a guest that is to come while a hotplugged volume that it has is not among those that were found here.

    Raises:
        ClaimUnusable: with the first one.
    """
    phases = {entry.name: entry.phase for entry in vmi.status.volume_status}
    for volume in hotplugged_disks(vmi):
        if phases.get(volume.name) in HANDED_OVER and volume.name not in found:
            detail = "the guest that is to come has it, and this Pod does not, or its device is in use on this node"
            raise ClaimUnusable(f"volume {volume.name}", claim_of(volume) or "", detail)


def _claim(vmi: VirtualMachineInstance, name: str) -> ClaimInfo | None:
    return next((item.persistent_volume_claim_info for item in vmi.status.volume_status if item.name == name), None)


def _is_ours(vmi: VirtualMachineInstance, volume: Volume, root: str) -> bool:
    """Whether no other guest writes the device of this volume, from now on; always true of a file."""
    claim = _claim(vmi, volume.name)
    disk = next((disk for disk in vmi.spec.domain.devices.disks if disk.name == volume.name), None)
    source = volume.persistent_volume_claim
    if disk is None or disk.shareable or only_reads(disk) or (source is not None and source.read_only):
        return True
    if claim is None or not is_block(claim.volume_mode):
        return True
    path = root + hotplug_path(volume.name, block=True)
    number = hold_device(root + os.path.dirname(HOTPLUG_DIRECTORY), path)
    if number:
        facts = {"volume": volume.name, "why": os.strerror(number)}
        log.warning("a device is not there from the start", extra={"facts": facts})
    return not number


def _is_there(vmi: VirtualMachineInstance, name: str, root: str) -> bool:
    for entry in vmi.status.volume_status:
        if entry.name == name and entry.phase in HANDED_OVER:
            claim = entry.persistent_volume_claim_info
            block = claim is not None and is_block(claim.volume_mode)
            return is_handed_over(root + hotplug_path(name, block=block), block=block)
    return False
