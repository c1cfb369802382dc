"""What addvolume and removevolume change: the two lists of a VM's template or of a VMI, or a refusal.

Called by volume_calls.py. Pure. Works on documents as they are stored, so that nothing in them is lost that no type
knows. Words, their order and their codes are KubeVirt's: clients match on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kvedge.api.subresources.call_options import AddVolumeOptions, RemoveVolumeOptions
from kvedge.api.subresources.status_message import bad_request, conflict
from kvedge.resources.codec import JsonObject

NO_GATE: Final = "Enable DeclarativeHotplugVolumes or HotplugVolumes feature gate to use this API."
NO_BODY: Final = "Request with no body, a new name is expected as the request body"
# Each source that can be hotplugged, with the member that names its claim.
_CLAIM_NAMES: Final = {"persistentVolumeClaim": "claimName", "dataVolume": "name"}


@dataclass(frozen=True, slots=True)
class Lists:
    """The volumes and disks of one object, and below which JSON pointer they stand; None for a list that is absent."""

    at: str
    volumes: list[JsonObject] | None
    disks: list[JsonObject] | None


def lists_of(document: JsonObject, at: str) -> Lists:
    """The lists of a VMI's spec at a JSON pointer: `/spec`, or `/spec/template/spec`."""
    spec: JsonObject = document
    for name in at.strip("/").split("/"):
        spec = spec.get(name) or {}
    devices = (spec.get("domain") or {}).get("devices") or {}
    return Lists(at, spec.get("volumes"), devices.get("disks"))


def check_add(options: AddVolumeOptions) -> None:
    """Raises Refusal for options that lack something."""
    if not options.name:
        raise bad_request("AddVolumeOptions requires name to be set")
    if options.disk is None:
        raise bad_request("AddVolumeOptions requires disk to not be nil")
    if options.volume_source is None:
        raise bad_request("AddVolumeOptions requires VolumeSource to not be nil")


def check_remove(options: RemoveVolumeOptions) -> None:
    """Raises Refusal for options that lack something."""
    if not options.name:
        raise bad_request("RemoveVolumeOptions requires name to be set")


def added(lists: Lists, options: AddVolumeOptions, resource: str, name: str) -> Lists:
    """The lists with the volume. Raises Refusal when it, or its claim, is there already."""
    volume = _volume(options)
    volumes = lists.volumes or []
    if any(there.get("name") == options.name for there in volumes):
        detail = f"Unable to add volume [{options.name}] because volume with that name already exists"
        raise conflict(resource, name, detail)
    claim = _claim(volume)
    if claim and any(_claim(there) == claim for there in volumes):
        raise conflict(resource, name, f"Unable to add volume source [{claim}] because it already exists")
    disk = {**(options.disk or {}), "name": options.name}
    # A CD-ROM drive that stands empty gets the volume of its name.
    disks = lists.disks or []
    is_there = any(there.get("name") == options.name for there in disks)
    return Lists(lists.at, [*volumes, volume], disks if is_there else [*disks, disk])


def removed(lists: Lists, options: RemoveVolumeOptions, resource: str, name: str) -> Lists:
    """The lists without the volume; a CD-ROM drive stays, empty.

    A claim's name stands for its volume. (KubeVirt accepts it as well, and then changes nothing.)

    Raises:
        Refusal: when there is no such volume, or it is one that stays until the guest is restarted.
    """
    volumes = lists.volumes or []
    found = next(_named(volumes, options.name), None)
    if found is None:
        raise conflict(resource, name, f"Unable to remove volume [{options.name}] because it does not exist")
    if not _is_hotpluggable(found):
        raise conflict(resource, name, f"Unable to remove volume [{options.name}] because it is not hotpluggable")
    disks = [
        disk for disk in lists.disks or [] if disk.get("name") != found.get("name") or disk.get("cdrom") is not None
    ]
    return Lists(lists.at, [volume for volume in volumes if volume is not found], disks)


def operations(before: Lists, after: Lists, resource_version: str) -> list[JsonObject]:
    """A JSON patch from one to the other, refused when somebody else has changed the lists meanwhile.

    A list that is absent cannot be tested: then nothing else of the object may have changed either.
    """
    made: list[JsonObject] = []
    pairs = (
        ("volumes", before.volumes, after.volumes),
        ("domain/devices/disks", before.disks, after.disks),
    )
    if any(old is None for _, old, _ in pairs):
        made.append({"op": "test", "path": "/metadata/resourceVersion", "value": resource_version})
    made += [{"op": "test", "path": f"{before.at}/{path}", "value": old} for path, old, _ in pairs if old is not None]
    made += [
        {"op": "add" if old is None else "replace", "path": f"{before.at}/{path}", "value": new}
        for path, old, new in pairs
        if (old or []) != new
    ]
    return made


def _volume(options: AddVolumeOptions) -> JsonObject:
    """The volume, with every source that it names marked as one that may be taken away."""
    source = options.volume_source or {}
    marked = {
        kind: {**value, "hotpluggable": True} if kind in _CLAIM_NAMES and isinstance(value, dict) else value
        for kind, value in source.items()
        if value is not None
    }
    return {"name": options.name, **marked}


def _named(volumes: Iterable[JsonObject], name: str) -> Iterator[JsonObject]:
    listed = list(volumes)
    yield from (volume for volume in listed if volume.get("name") == name)
    yield from (volume for volume in listed if _claim(volume) == name)


def _claim(volume: JsonObject) -> str:
    for kind, member in _CLAIM_NAMES.items():
        source = volume.get(kind)
        if isinstance(source, dict):
            return str(source.get(member) or "")
    return ""


def _is_hotpluggable(volume: JsonObject) -> bool:
    sources = (volume.get(kind) for kind in _CLAIM_NAMES)
    return any(isinstance(source, dict) and source.get("hotpluggable") is True for source in sources)
