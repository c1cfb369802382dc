"""Which hotplugged disks the VMI wants, and which of them the handler has put into the Pod.

Called by `disk_keeper` with the VMI's JSON, of which it reads some fields only: the VMI's types would stay in the
launcher for the guest's whole life. Looks at the files of hotplugged volumes; opens none.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kvedge.launcher.disks.handed_over import is_handed_over
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.resources.disks.hotplug_places import HANDED_OVER, hotplug_path, is_block


class DiskWish(NamedTuple):
    """One disk of a hotpluggable volume; `is_ready` says that the volume is in the Pod, at `path`, and `exclusive` that
    it is a device which nobody else may have meanwhile.
    """

    name: str
    path: str
    block: bool
    is_ready: bool
    claim: str = ""
    exclusive: bool = False


class Wishes(NamedTuple):
    """The disks that are to be there, by name, and the names of the VMI's CD-ROM drives."""

    disks: dict[str, DiskWish]
    drives: frozenset[str]


def read_wishes(document: bytes, root: str) -> Wishes:
    """What a VMI wants of hotplug; `root` is before every path of the Pod.

    Raises:
        BadRequest: when the document is no VMI.
    """
    try:
        vmi = json.loads(document or b"{}")
        spec, status = vmi.get("spec", {}), vmi.get("status", {})
        devices = (spec.get("domain") or {}).get("devices") or {}
        disks = {disk["name"]: disk for disk in devices.get("disks") or []}
        entries = {entry["name"]: entry for entry in status.get("volumeStatus") or []}
        volumes = [volume for volume in spec.get("volumes") or [] if volume["name"] in disks and _comes(volume)]
        drives = frozenset(name for name, disk in disks.items() if disk.get("cdrom") is not None)
        wished = [_wish(volume, disks[volume["name"]], entries.get(volume["name"]) or {}, root) for volume in volumes]
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise BadRequest("the VMI", f"cannot be read: {error!r}") from error
    return Wishes({wish.name: wish for wish in wished}, drives)


def _comes(volume: dict[str, Any]) -> bool:
    return bool(_source(volume).get("hotpluggable"))


def _source(volume: dict[str, Any]) -> dict[str, Any]:
    return volume.get("persistentVolumeClaim") or volume.get("dataVolume") or {}


def _wish(volume: dict[str, Any], disk: dict[str, Any], entry: dict[str, Any], root: str) -> DiskWish:
    name, source = volume["name"], _source(volume)
    block = is_block((entry.get("persistentVolumeClaimInfo") or {}).get("volumeMode"))
    path = root + hotplug_path(name, block=block)
    is_ready = entry.get("phase") in HANDED_OVER and is_handed_over(path, block=block)
    claim = str(source.get("claimName") or source.get("name") or "")
    return DiskWish(name, path, block, is_ready, claim, block and _is_alone(disk, source))


def _is_alone(disk: dict[str, Any], source: dict[str, Any]) -> bool:
    """Whether the disk is written, and by this guest only."""
    target = disk.get("disk") or disk.get("lun") or {}
    only_reads = disk.get("cdrom") is not None or target.get("readonly") or source.get("readOnly")
    return not only_reads and not disk.get("shareable")
