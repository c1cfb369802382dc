"""A VM as it stands in an archive: without what belongs to the place that it comes from, and with what it needs.

Called by exports. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.portable_vm import without_memory_dumps, without_place
from kvedge.resources.instancetypes.kept_types import without_revision_names

_KINDS: Final = {"Secret": "secrets", "ConfigMap": "configmaps"}
# What is made anew on each server.
_KEPT_METADATA: Final = ("name", "labels", "annotations")
_SPECIAL_SECRETS: Final = "kubernetes.io/service-account-token"


class Needed(NamedTuple):
    """An object that a VM names."""

    kind: str
    name: str

    @property
    def resource(self) -> str:
        """Its place in the core API."""
        return _KINDS[self.kind]


class LastingVolume(NamedTuple):
    """A volume whose claim keeps what the guest writes."""

    volume: str
    claim: str
    # Whether the VM's own dataVolumeTemplates made the claim.
    is_owned: bool


def strip_vm(vm: JsonObject) -> JsonObject:
    """The VM without status, times, owners and what other programs have written on it."""
    metadata = {key: copy.deepcopy(value) for key in _KEPT_METADATA if (value := vm.get("metadata", {}).get(key))}
    if annotations := without_place(metadata.pop("annotations", {})):
        metadata["annotations"] = annotations
    # The copies of its instance type and preference stay where the VM was.
    spec = without_memory_dumps(copy.deepcopy(without_revision_names(vm.get("spec") or {})))
    return {
        "apiVersion": vm.get("apiVersion", "kubevirt.io/v1"),
        "kind": "VirtualMachine",
        "metadata": metadata,
        "spec": spec,
    }


def strip_object(document: JsonObject, kind: str) -> JsonObject:
    """A Secret or a ConfigMap, in the same way."""
    metadata = {key: value for key in _KEPT_METADATA if (value := document.get("metadata", {}).get(key))}
    if annotations := without_place(metadata.pop("annotations", {})):
        metadata["annotations"] = annotations
    content = {key: document[key] for key in ("type", "data", "binaryData", "immutable") if document.get(key)}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}


def is_portable(document: JsonObject) -> bool:
    """Whether a Secret means the same elsewhere: a service account's token does not."""
    return document.get("type") != _SPECIAL_SECRETS


def find_lasting(vm: JsonObject) -> list[LastingVolume]:
    """The volumes of which an export has the disks."""
    owned = {str((each.get("metadata") or {}).get("name")) for each in vm["spec"].get("dataVolumeTemplates") or ()}
    found = []
    for volume in volumes_of(vm):
        if claim := _claim(volume):
            found.append(LastingVolume(str(volume.get("name")), claim, claim in owned))
    return found


def find_needed(vm: JsonObject) -> list[Needed]:
    """The Secrets and ConfigMaps that it names, each once, in the order in which it names them."""
    found: dict[Needed, None] = {}
    spec = (vm["spec"].get("template") or {}).get("spec") or {}
    for volume in volumes_of(vm):
        for needed in _needed_by_volume(volume):
            found[needed] = None
    for credential in spec.get("accessCredentials") or ():
        for way in credential.values():
            name = (((way or {}).get("source") or {}).get("secret") or {}).get("secretName")
            if name:
                found[Needed("Secret", name)] = None
    return list(found)


def find_left_out(vm: JsonObject) -> list[str]:
    """What of the VM an export does not have, as sentences for the user."""
    texts = []
    for volume in volumes_of(vm):
        name = volume.get("name")
        if "emptyDisk" in volume:
            texts.append(f"volume {name}: an emptyDisk begins empty")
        elif "hostDisk" in volume:
            texts.append(f"volume {name}: the file {volume['hostDisk'].get('path')} of its node is not exported")
        elif "ephemeral" in volume:
            texts.append(f"volume {name}: the claim below an ephemeral volume is not exported")
        elif "containerDisk" in volume:
            texts.append(f"volume {name}: the image {volume['containerDisk'].get('image')} is named, not contained")
        elif "memoryDump" in volume:
            texts.append(f"volume {name}: a memory dump is not exported")
    domain = ((vm["spec"].get("template") or {}).get("spec") or {}).get("domain") or {}
    devices = domain.get("devices") or {}
    if (devices.get("tpm") or {}).get("persistent"):
        texts.append("the TPM's state is not exported: a guest that has sealed its keys there needs its recovery key")
    if (((domain.get("firmware") or {}).get("bootloader") or {}).get("efi") or {}).get("persistent"):
        texts.append("the EFI variables are not exported: the guest boots by its fallback loader at first")
    for key in ("instancetype", "preference"):
        if reference := vm["spec"].get(key):
            texts.append(f"the {key} {reference.get('name')} is named, not contained")
    return texts


def volumes_of(vm: JsonObject) -> Sequence[JsonObject]:
    """The volumes of a VM's template."""
    spec = (vm["spec"].get("template") or {}).get("spec") or {}
    found: Sequence[JsonObject] = spec.get("volumes") or ()
    return found


def _claim(volume: Mapping[str, Any]) -> str:
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    return str(claim or (volume.get("dataVolume") or {}).get("name") or "")


def _needed_by_volume(volume: Mapping[str, Any]) -> Iterator[Needed]:
    if name := (volume.get("containerDisk") or {}).get("imagePullSecret"):
        yield Needed("Secret", name)
    for kind in ("cloudInitNoCloud", "cloudInitConfigDrive"):
        source = volume.get(kind) or {}
        for key in ("secretRef", "networkDataSecretRef"):
            if name := (source.get(key) or {}).get("name"):
                yield Needed("Secret", name)
    if name := (volume.get("secret") or {}).get("secretName"):
        yield Needed("Secret", name)
    if name := (volume.get("configMap") or {}).get("name"):
        yield Needed("ConfigMap", name)
    sysprep = volume.get("sysprep") or {}
    if name := (sysprep.get("secret") or {}).get("name"):
        yield Needed("Secret", name)
    if name := (sysprep.get("configMap") or {}).get("name"):
        yield Needed("ConfigMap", name)
