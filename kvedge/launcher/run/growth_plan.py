"""Which disks of the running domain have to grow, and to what size.

Called by `disk_growth`. Pure. A disk only grows: a wanted size below the real one is no reason to do anything. What is
compared is the domain's own size of a disk, never one that was remembered, so that growth which came while the launcher
was away, or together with a restart, is found as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.domain_facts import DiskSize
from kvedge.resources.disks.hotplug_places import is_block


class Wanted(NamedTuple):
    """What the copy of a claim comes to: bytes, 0 when the claim does not say; `layer`: the guest writes a layer."""

    bytes: int
    block: bool
    layer: bool


class Growth(NamedTuple):
    """One disk that has to grow."""

    name: str
    target: str
    bytes: int


def read_wanted(vmi_json: bytes) -> dict[str, Wanted]:
    """The sizes by the disk's name, for each disk on a claim that the guest may write.

    Raises:
        BadRequest: when it is no VMI.
    """
    if not vmi_json:
        return {}
    try:
        vmi = json.loads(vmi_json)
        spec, status = vmi["spec"], vmi.get("status") or {}
        disks = {disk["name"]: disk for disk in spec["domain"].get("devices", {}).get("disks") or []}
        infos = {
            entry["name"]: entry["persistentVolumeClaimInfo"]
            for entry in status.get("volumeStatus") or []
            if entry.get("persistentVolumeClaimInfo")
        }
        wanted = {}
        for volume in spec.get("volumes") or []:
            name = volume["name"]
            if name in infos and not _is_only_read(disks.get(name), volume):
                wanted[name] = _parse_wanted(volume, infos[name])
        return wanted
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadRequest("the VMI", f"cannot be read: {error}") from error


def _is_only_read(disk: Mapping[str, Any] | None, volume: Mapping[str, Any]) -> bool:
    """Whether nobody may write the disk, and so nobody grows it."""
    if disk is None or disk.get("cdrom") is not None:
        return True
    source = volume.get("persistentVolumeClaim") or {}
    target = disk.get("disk") or disk.get("lun") or {}
    return bool(source.get("readOnly") or target.get("readonly"))


def _parse_wanted(volume: Mapping[str, Any], info: Mapping[str, Any]) -> Wanted:
    # Loaded by the launchers of VMIs with claims: exact numbers are 1 MB.
    from kvedge.resources.disks.disk_sizes import choose_grown_bytes
    from kvedge.resources.values.quantities import QuantityError

    block = is_block(info.get("volumeMode"))
    try:
        size = choose_grown_bytes(
            info.get("requests") or {}, info.get("capacity") or {}, info.get("filesystemOverhead"), block=block
        )
    except QuantityError:
        # A claim that cannot be read lets a disk stay as it is.
        size = 0
    return Wanted(size, block, "ephemeral" in volume)


def plan_growth(wanted: Mapping[str, Wanted], present: Mapping[str, DiskSize]) -> list[Growth]:
    """What to do, in the order of the VMI's volumes."""
    found = []
    for name, want in wanted.items():
        disk = present.get(name)
        if disk is None:
            continue
        # Of a device the device itself says how large it is.
        size = disk.device_bytes if want.block and not want.layer else want.bytes
        if size > disk.bytes > 0:
            found.append(Growth(name, disk.target, size))
    return found
