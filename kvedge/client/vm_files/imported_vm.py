"""The VM and the disks that are made of a file: their names, classes and sizes here.

Called by imports. Pure. Each disk becomes a DataVolume; those that were the VM's own become its own again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from kvedge.client.errors import UsageError
from kvedge.client.session import check_name
from kvedge.client.vm_files.archive_errors import DamagedFile
from kvedge.client.vm_files.archive_manifest import ArchiveManifest, DiskEntry
from kvedge.client.vm_files.exported_vm import find_lasting, find_needed, is_portable, volumes_of
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import BIND_IMMEDIATELY, KUBEVIRT_CONTENT
from kvedge.resources.disks.portable_vm import without_place
from kvedge.resources.identity import plain_mac
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.values.name_grammar import LABEL_LENGTH

_MIB: Final = 1 << 20
_OBJECT_KINDS: Final = ("Secret", "ConfigMap")
# Labels whose value is the VM's name.
_NAME_LABELS: Final = ("kubevirt.io/vm", "kubevirt.io/domain", "vm.kubevirt.io/name")
_KEPT_METADATA: Final = ("name", "labels", "annotations")
_HALTED: Final = "Halted"
_KEEPS_HALTED: Final = ("Halted", "Manual")


class ImportWish(Struct, frozen=True):
    """What the user wants of the VM; empty texts leave it as the file has it."""

    name: str = ""
    storage_class: str = ""
    start: bool = False
    new_macs: bool = False


class PlannedDisk(Struct, frozen=True):
    """A DataVolume that is made, and the volume that it is for; `size` is in bytes, of whole MiB."""

    name: str
    volume: str
    size: int
    storage_class: str
    is_owned: bool


class ImportPlan(Struct, frozen=True):
    """All that an import makes."""

    name: str
    vm: JsonObject
    disks: list[PlannedDisk]
    objects: list[JsonObject]
    notes: list[str] = field(default_factory=list)

    def macs(self) -> list[str]:
        """Of the VM's interfaces, written in one way."""
        return [plain_mac(str(nic["macAddress"])) for nic in _interfaces(self.vm) if nic.get("macAddress")]


def plan_import(manifest: ArchiveManifest, wish: ImportWish, least_sizes: list[int]) -> ImportPlan:
    """What is to be made of a file. `least_sizes` are what the image of each disk needs while it is taken.

    Raises:
        UsageError: for a name that no VM can have.
        DamagedFile: when the file's documents do not hold together.
    """
    try:
        return _plan(manifest, wish, least_sizes)
    except (AttributeError, KeyError, TypeError) as error:
        # A list where an object should be, or the like: the server's own check comes too late for it.
        raise DamagedFile(f"the file's documents are not as a server has them: {str(error)[:200]}") from error


def _plan(manifest: ArchiveManifest, wish: ImportWish, least_sizes: list[int]) -> ImportPlan:
    vm = copy.deepcopy(manifest.vm)
    _check_vm(vm)
    old = str(vm["metadata"].get("name") or "")
    name = check_name(wish.name or old)
    vm["metadata"]["name"] = name
    disks = [
        _plan_disk(entry, wish, name if name != old else "", least)
        for entry, least in zip(manifest.disks, least_sizes, strict=True)
    ]
    _check_disks(vm, disks)
    _lead_volumes(vm, disks, {entry.claim for entry in manifest.disks})
    if name != old:
        _rename_labels(vm, old, name)
    objects = [_check_object(document) for document in manifest.objects]
    _check_needed(vm, objects)
    _check_claims(vm, {disk.volume for disk in disks})
    notes = [*_set_running(vm, start=wish.start), *_tell_foreign(vm, objects)]
    if wish.new_macs:
        for nic in _interfaces(vm):
            nic.pop("macAddress", None)
    return ImportPlan(name, vm, disks, objects, notes)


def make_data_volume(disk: PlannedDisk) -> JsonObject:
    """The DataVolume that takes the image of a disk; it is bound at once, as the VM that will use it is made later."""
    storage: JsonObject = {"resources": {"requests": {"storage": f"{disk.size // _MIB}Mi"}}}
    if disk.storage_class:
        storage["storageClassName"] = disk.storage_class
    return {
        "apiVersion": DataVolume.KIND.api_version,
        "kind": DataVolume.KIND.kind,
        "metadata": {"name": disk.name, "annotations": {BIND_IMMEDIATELY: ""}},
        "spec": {"source": {"upload": {}}, "contentType": KUBEVIRT_CONTENT, "storage": storage},
    }


def _check_vm(vm: JsonObject) -> None:
    try:
        is_vm = vm["kind"] == "VirtualMachine" and str(vm["apiVersion"]).startswith("kubevirt.io/")
        is_whole = isinstance(vm["metadata"], dict) and isinstance(vm["spec"]["template"]["spec"], dict)
    except (KeyError, TypeError) as error:
        raise DamagedFile(f"the file's VM is not whole: it lacks {error}") from error
    if not is_vm or not is_whole:
        raise DamagedFile("the file's VM is of another kind")
    for key in ("volumes", "networks"):
        if not _is_list_of_objects(vm["spec"]["template"]["spec"].get(key)):
            raise DamagedFile(f"the file's VM is not whole: spec.template.spec.{key} is no list")
    # Whatever it says of places, owners and times is not of here; nor are other programs' notes.
    metadata = {key: vm["metadata"][key] for key in _KEPT_METADATA if key in vm["metadata"]}
    if annotations := without_place(metadata.pop("annotations", None) or {}):
        metadata["annotations"] = annotations
    vm["metadata"] = metadata
    vm.pop("status", None)


def _is_list_of_objects(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(each, dict) for each in value))


def _check_object(document: JsonObject) -> JsonObject:
    metadata = document.get("metadata")
    is_known = document.get("kind") in _OBJECT_KINDS and document.get("apiVersion") == "v1"
    if not is_known or not isinstance(metadata, dict):
        raise DamagedFile(f"the file has an object that belongs to no VM: {str(document.get('kind'))[:63]!r}")
    check_name(str(metadata.get("name") or ""))
    if not is_portable(document):
        # A server would put a token of its own into it, for the guest of whoever has made the file.
        raise DamagedFile("the file has a Secret for the token of a service account, which no export takes along")
    return {**document, "metadata": {key: metadata[key] for key in _KEPT_METADATA if key in metadata}}


def _plan_disk(entry: DiskEntry, wish: ImportWish, prefix: str, least: int) -> PlannedDisk:
    name = f"{prefix}-{entry.volume}" if prefix else entry.claim
    size = -(-max(entry.size, least) // _MIB) * _MIB
    return PlannedDisk(check_name(name), entry.volume, size, wish.storage_class, entry.is_owned)


def _check_disks(vm: JsonObject, disks: list[PlannedDisk]) -> None:
    names = [disk.name for disk in disks]
    if len(set(names)) < len(names):
        raise UsageError("two disks of the VM would have one name: import it under another --name")
    known = {str(volume.get("name")) for volume in volumes_of(vm)}
    if unknown := [disk.volume for disk in disks if disk.volume not in known]:
        raise DamagedFile(f"the file has a disk that its VM has no volume for: {unknown[0][:63]!r}")


def _check_claims(vm: JsonObject, brought: set[str]) -> None:
    """A claim that the file has no disk of is another VM's here; an export has the disks of all of them."""
    templates = {str((each.get("metadata") or {}).get("name")) for each in vm["spec"].get("dataVolumeTemplates") or ()}
    for volume in find_lasting(vm):
        if volume.volume not in brought and volume.claim not in templates:
            raise DamagedFile(
                f"the file has no disk of volume {volume.volume[:63]!r}, which would be the claim "
                f"{volume.claim[:63]!r} that somebody has here: take the volume out of the VM, or export it anew"
            )


def _check_needed(vm: JsonObject, objects: list[JsonObject]) -> None:
    """An export takes along what its VM names, and nothing else: a Secret may be more than text to a server."""
    needed = {(each.kind, each.name) for each in find_needed(vm)}
    for document in objects:
        if (document["kind"], document["metadata"]["name"]) not in needed:
            name = str(document["metadata"]["name"])[:63]
            raise DamagedFile(f"the file has the {document['kind']} {name!r}, which its VM does not name")


def _lead_volumes(vm: JsonObject, disks: list[PlannedDisk], claims: set[str]) -> None:
    """Have the volumes name the claims that are made; templates of these claims would make them anew."""
    made = {disk.volume: disk.name for disk in disks}
    for volume in volumes_of(vm):
        if volume.get("name") in made:
            old = volume.pop("dataVolume", None) or volume.pop("persistentVolumeClaim", None) or {}
            kept = {key: old[key] for key in ("hotpluggable",) if key in old}
            volume["dataVolume"] = {**kept, "name": made[str(volume["name"])]}
    templates = vm["spec"].pop("dataVolumeTemplates", None) or []
    kept_templates = [each for each in templates if (each.get("metadata") or {}).get("name") not in claims]
    if kept_templates:
        vm["spec"]["dataVolumeTemplates"] = kept_templates


def _rename_labels(vm: JsonObject, old: str, new: str) -> None:
    for metadata in (vm["metadata"], vm["spec"]["template"].get("metadata") or {}):
        labels = metadata.get("labels") or {}
        for key in _NAME_LABELS:
            if labels.get(key) == old:
                labels[key] = new
                if len(new) > LABEL_LENGTH:
                    del labels[key]


def _set_running(vm: JsonObject, *, start: bool) -> list[str]:
    """Whether it starts at once; what it did before is told where that changes."""
    spec = vm["spec"]
    running = spec.pop("running", None)
    strategy = spec.get("runStrategy") or ("Always" if running else _HALTED)
    if start:
        spec["runStrategy"] = "Always" if strategy in _KEEPS_HALTED else strategy
        return []
    spec["runStrategy"] = strategy if strategy in _KEEPS_HALTED else _HALTED
    if strategy in ("Always", *_KEEPS_HALTED):
        return []
    return [f"its runStrategy was {strategy}, and is Halted here until it is started"]


def _tell_foreign(vm: JsonObject, objects: list[JsonObject]) -> list[str]:
    """What its guest gets to know that is not from the file: whoever has made the file may have meant that."""
    brought = {(document["kind"], document["metadata"]["name"]) for document in objects}
    texts = [
        f"its guest gets what is in the {needed.kind} {needed.name} here, which is not in the file"
        for needed in find_needed(vm)
        if (needed.kind, needed.name) not in brought
    ]
    for volume in volumes_of(vm):
        if account := (volume.get("serviceAccount") or {}).get("serviceAccountName"):
            texts.append(f"its guest gets a token of the service account {account} here")
        if claim := ((volume.get("ephemeral") or {}).get("persistentVolumeClaim") or {}).get("claimName"):
            texts.append(f"its guest reads the claim {claim} here")
        if path := (volume.get("hostDisk") or {}).get("path"):
            texts.append(f"its guest gets the file {path} of its node")
    for template in vm["spec"].get("dataVolumeTemplates") or ():
        texts.append(f"its disk {(template.get('metadata') or {}).get('name')} is not in the file, and is made here")
    devices = (vm["spec"]["template"]["spec"].get("domain") or {}).get("devices") or {}
    for kind in ("gpus", "hostDevices"):
        texts += [f"its guest gets a device {each.get('deviceName')} of its node" for each in devices.get(kind) or ()]
    return texts


def _interfaces(vm: JsonObject) -> Iterator[JsonObject]:
    domain = vm["spec"]["template"]["spec"].get("domain") or {}
    yield from (domain.get("devices") or {}).get("interfaces") or ()
