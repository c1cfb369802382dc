"""What addvolume and removevolume change: the two lists of a VM's template or of a VMI, or a refusal.

Called by volume_calls.py. Pure. Works on documents as they are stored, so that nothing in them is lost that no type
knows. Words, their order and their codes are KubeVirt's: clients match on them. No webhook judges what the api role
writes: what may be added is judged here, by the rules of admission.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from msgspec import Struct

from kvedge.api.admission.rules.causes import Cause, Field, cut_list, summary
from kvedge.api.admission.rules.not_yet_rules import VMI_NOT_YET, not_yet
from kvedge.api.admission.rules.storage import disk_rules, volume_rules
from kvedge.api.admission.rules.subject import Subject
from kvedge.api.admission.rules.text_rules import texts_fit_into_xml
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.subresources.call_options import AddVolumeOptions, RemoveVolumeOptions
from kvedge.api.subresources.status_message import Refusal, bad_request, conflict
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import Volume
from kvedge.resources.values.name_grammar import is_label

NO_GATE: Final = "Enable DeclarativeHotplugVolumes or HotplugVolumes feature gate to use this API."
NO_BODY: Final = "Request with no body, a new name is expected as the request body"
# Each source that can be hotplugged, with the member that names its claim.
_CLAIM_NAMES: Final = {"persistentVolumeClaim": "claimName", "dataVolume": "name"}
# That a LUN is on scsi alone says admission, in KubeVirt's words.
_BUSES: Final = ("scsi", "virtio")
_SPEC_RULES: Final = (*disk_rules.RULES, *volume_rules.RULES)


class Lists(Struct, frozen=True):
    """The volumes and disks of one object, and below which JSON pointer they stand; None for a list that is absent."""

    at: str
    volumes: list[JsonObject] | None
    disks: list[JsonObject] | None


def lists_of(document: JsonObject, at: str) -> Lists:
    """The lists of a VMI's spec at a JSON pointer: `/spec`, or `/spec/template/spec`."""
    spec = _member(document, at)
    devices = (spec.get("domain") or {}).get("devices") or {}
    return Lists(at, spec.get("volumes"), devices.get("disks"))


def check_add(options: AddVolumeOptions) -> None:
    """Raises Refusal for options that lack something, or ask for what cannot come to a guest that runs."""
    if not options.name:
        raise bad_request("AddVolumeOptions requires name to be set")
    if options.disk is None:
        raise bad_request("AddVolumeOptions requires disk to not be nil")
    if options.volume_source is None:
        raise bad_request("AddVolumeOptions requires VolumeSource to not be nil")
    if not is_label(options.name):
        raise bad_request(f"name: {options.name[:80]!r} must consist of lower case letters, digits and '-', at most 63")
    _check_source(options.volume_source)
    _check_disk(options.disk)


def check_result(document: JsonObject, at: str, after: Lists) -> None:
    """Judge the object's spec as it will be, by admission's rules of disks and volumes.

    What was wrong before is nobody's fault now: only what the new lists bring is refused.

    Raises:
        Refusal: 422, with all causes.
    """
    old = _member(document, at)
    new = _with_lists(old, after)
    here = Field(at.strip("/").replace("/", "."))
    try:
        found = _causes(new, here)
    except DecodeError as error:
        raise _refusal([Cause(here.at(error.path), str(error), "FieldValueTypeInvalid")]) from error
    try:
        known = _causes(old, here)
    except DecodeError:
        known = []
    if fresh := [cause for cause in found if cause not in known]:
        raise _refusal(fresh)


def check_remove(options: RemoveVolumeOptions) -> None:
    """Raises Refusal for options that lack something."""
    if not options.name:
        raise bad_request("RemoveVolumeOptions requires name to be set")


def add_volume(lists: Lists, options: AddVolumeOptions, resource: str, name: str) -> Lists:
    """Add the volume to the lists. Raises Refusal when it, or its claim, is there already."""
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


def remove_volume(lists: Lists, options: RemoveVolumeOptions, resource: str, name: str) -> Lists:
    """Remove the volume from the lists; a CD-ROM drive stays, empty.

    A claim's name stands for its volume. (KubeVirt accepts it as well, and then changes nothing.)

    Raises:
        Refusal: when there is no such volume, or it is one that stays until the guest is restarted.
    """
    volumes = lists.volumes or []
    found = next(_with_name(volumes, options.name), None)
    if found is None:
        raise conflict(resource, name, f"Unable to remove volume [{options.name}] because it does not exist")
    if not _is_hotpluggable(found):
        raise conflict(resource, name, f"Unable to remove volume [{options.name}] because it is not hotpluggable")
    disks = [
        disk for disk in lists.disks or [] if disk.get("name") != found.get("name") or disk.get("cdrom") is not None
    ]
    return Lists(lists.at, [volume for volume in volumes if volume is not found], disks)


def operations(before: Lists, after: Lists, resource_version: str) -> list[JsonObject]:
    """A JSON patch from one to the other, refused when somebody else has changed the object meanwhile.

    The lists themselves are no test: kube-apiserver compares texts as they are spelled, and spells `<`, `>` and `&`, of
    which cloud-init's scripts are full, in another way than they were sent.
    """
    pairs = (
        ("volumes", before.volumes, after.volumes),
        ("domain/devices/disks", before.disks, after.disks),
    )
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": resource_version},
        *(
            {"op": "add" if old is None else "replace", "path": f"{before.at}/{path}", "value": new}
            for path, old, new in pairs
            if (old or []) != new
        ),
    ]


def _check_source(source: JsonObject) -> None:
    given = [kind for kind, value in source.items() if value is not None]
    if len(given) != 1 or given[0] not in _CLAIM_NAMES:
        shown = ", ".join(name[:40] for name in given[:5]) or "nothing"
        raise bad_request(
            f"volumeSource: has {shown}, and must have exactly one of persistentVolumeClaim and dataVolume: no other"
            " source can come to a guest that runs"
        )
    _check_type(Volume, source, "volumeSource")


def _check_disk(document: JsonObject) -> None:
    disk = _check_type(Disk, document, "disk")
    targets = {"disk": disk.disk, "lun": disk.lun}
    kind, target = next(((kind, target) for kind, target in targets.items() if target is not None), ("", None))
    if target is None or disk.cdrom is not None or (disk.disk is not None and disk.lun is not None):
        raise bad_request(
            "disk: must have exactly one of disk and lun: a CD-ROM drive cannot come to a guest that runs"
        )
    if target.bus not in _BUSES:
        remedy = "scsi" if kind == "lun" else "scsi or virtio"
        raise bad_request(f"disk.{kind}.bus: {target.bus[:40]!r} cannot be hotplugged: use {remedy}")


T = TypeVar("T")


def _check_type(cls: type[T], document: JsonObject, at: str) -> T:
    if wrong := next(unknown_fields(cls, document, Field(at)), None):
        raise bad_request(wrong.shorten().message)
    try:
        return decode(cls, {**document, "name": "volume"})
    except DecodeError as error:
        raise bad_request(f"{at}: {error}") from error


def _causes(spec: JsonObject, at: Field) -> list[Cause]:
    """Raises DecodeError."""
    causes = [*not_yet(VMI_NOT_YET, spec, at), *texts_fit_into_xml(spec.get("domain"), at.at("domain"))]
    typed = decode(VirtualMachineInstanceSpec, spec)
    subject = Subject(typed, ObjectMeta(), at, Field("metadata"))
    return causes + [cause for rule in _SPEC_RULES for cause in rule(subject)]


def _refusal(causes: list[Cause]) -> Refusal:
    told = [cause.shorten() for cause in causes]
    return Refusal(422, summary(told), causes=[cause.document() for cause in cut_list(told)])


def _member(document: JsonObject, at: str) -> JsonObject:
    found: JsonObject = document
    for name in at.strip("/").split("/"):
        found = found.get(name) or {}
    return found


def _with_lists(spec: JsonObject, lists: Lists) -> JsonObject:
    domain = spec.get("domain") or {}
    devices = {**(domain.get("devices") or {}), "disks": lists.disks or []}
    return {**spec, "volumes": lists.volumes or [], "domain": {**domain, "devices": devices}}


def _volume(options: AddVolumeOptions) -> JsonObject:
    """The volume, with every source that it names marked as one that may be taken away."""
    source = options.volume_source or {}
    marked = {
        kind: {**value, "hotpluggable": True} if kind in _CLAIM_NAMES and isinstance(value, dict) else value
        for kind, value in source.items()
        if value is not None
    }
    return {"name": options.name, **marked}


def _with_name(volumes: Iterable[JsonObject], name: str) -> Iterator[JsonObject]:
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
