"""The documents by which somebody else can import an exported VM: the VM, and DataVolumes that fill its disks.

Called by `export_sources`. Pure. The exporter completes the URLs, which are paths here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvedge.controller.exports.export_links import gzip_path
from kvedge.controller.exports.export_view import SourceVolume
from kvedge.controller.snapshots.volume_copies import claim_like
from kvedge.resources.codec import DecodeError, JsonObject, decode, encode
from kvedge.resources.disks.portable_vm import without_memory_dumps, without_place
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.export_job import ExportManifests
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContent
from kvedge.resources.types.vm import VirtualMachine


def snapshot_vm(content: VirtualMachineSnapshotContent) -> VirtualMachine:
    """The VM as it was at the time of a snapshot."""
    try:
        return decode(VirtualMachine, content.spec.source.virtual_machine or {})
    except DecodeError:
        # A content that somebody else has written.
        return VirtualMachine()


def make_vm_manifests(
    vm: VirtualMachine, volumes: Sequence[SourceVolume], of_claim: Mapping[str, SourceVolume] | None = None
) -> ExportManifests:
    """The documents; `of_claim` says which volume holds the copy of a claim, where it is not the claim itself."""
    found = of_claim or {each.name: each for each in volumes}
    spec = dict(without_memory_dumps(encode(vm).get("spec") or {}))
    templates = []
    for template in spec.get("dataVolumeTemplates") or ():
        volume = found.get((template.get("metadata") or {}).get("name", ""))
        if volume is not None and volume.disk:
            inner = {key: value for key, value in (template.get("spec") or {}).items() if key != "sourceRef"}
            template = {**template, "spec": {**inner, "source": _source(volume)}}
        templates.append(template)
    if templates:
        spec["dataVolumeTemplates"] = templates
    brought = {(each.get("metadata") or {}).get("name") for each in templates}
    apart = [_data_volume(vm, name, each) for name, each in found.items() if name not in brought and each.disk]
    return ExportManifests(virtual_machine={**_head(vm), "spec": spec}, data_volumes=apart)


def _head(vm: VirtualMachine) -> JsonObject:
    kept = without_place(vm.metadata.annotations)
    metadata: JsonObject = {"name": vm.metadata.name, "namespace": vm.metadata.namespace}
    if vm.metadata.labels:
        metadata["labels"] = dict(vm.metadata.labels)
    if kept:
        metadata["annotations"] = kept
    return {"apiVersion": VirtualMachine.KIND.api_version, "kind": VirtualMachine.KIND.kind, "metadata": metadata}


def _data_volume(vm: VirtualMachine, name: str, volume: SourceVolume) -> JsonObject:
    like = encode(claim_like(volume.claim))
    storage = {key: like[key] for key in ("accessModes", "volumeMode", "resources") if key in like}
    return {
        "apiVersion": DataVolume.KIND.api_version,
        "kind": DataVolume.KIND.kind,
        "metadata": {"name": name, "namespace": vm.metadata.namespace},
        "spec": {"source": _source(volume), "storage": storage},
    }


def _source(volume: SourceVolume) -> JsonObject:
    return {"http": {"url": gzip_path(volume.name)}}
