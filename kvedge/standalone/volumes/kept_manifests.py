"""What is noted beside the disks of one box: each claim, each VM with the claims that it names, and each
VolumeSnapshot. Pure.

Written by the keeper of manifests, read by `kvedge recover`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvedge.resources.codec import DecodeError, JsonObject, KubeStruct, decode_json, encode, encode_json
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine

# Grows when an older kvedge would misread a note.
_FORMAT: Final = 1
# Annotations of what an object has gone through: whoever is made of the note has not.
_HISTORY: Final = ("kubectl.kubernetes.io/", "pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")


class KeptManifest(KubeStruct, kw_only=True):
    """One note: the document of a claim, with what its volume is, or that of a VM."""

    format: int = _FORMAT
    claim: JsonObject | None = None
    # Of a claim: its volume's size as a quantity, and the name of the place's driver for it.
    capacity: str = ""
    volume: str = ""
    vm: JsonObject | None = None
    # `volume` is then what the driver calls the snapshot.
    snapshot: JsonObject | None = None


def claim_note_name(uid: str) -> str:
    """The name of a claim's note."""
    return f"claim-{uid}"


def vm_note_name(uid: str) -> str:
    """The name of a VM's note: another VM of its name, made later, has another."""
    return f"vm-{uid}"


def make_claim_note(claim: PersistentVolumeClaim, volume: PersistentVolume, driver_name: str) -> bytes:
    """The note of a claim that has a volume of ours."""
    capacity = str(volume.spec.capacity.get("storage", ""))
    return encode_json(KeptManifest(claim=_strip(encode(claim)), capacity=capacity, volume=driver_name))


def make_snapshot_note(snapshot: VolumeSnapshot, name: str) -> bytes:
    """The note of a VolumeSnapshot that is taken, which the driver calls by this name."""
    return encode_json(KeptManifest(snapshot=_strip(encode(snapshot)), volume=name))


def make_vm_note(vm: VirtualMachine) -> bytes:
    """The note of a VM."""
    return encode_json(KeptManifest(vm=_strip(encode(vm))))


def read_note(content: bytes) -> KeptManifest | None:
    """A note; None for what is none, or of a newer kvedge."""
    try:
        found = decode_json(KeptManifest, content)
    except DecodeError:
        return None
    return found if found.format == _FORMAT else None


def claims_of_vm(vm: VirtualMachine) -> set[str]:
    """The claims that a VM's volumes name; a DataVolume's claim has its name."""
    volumes = vm.spec.template.spec.volumes if vm.spec.template is not None else []
    return {name for each in volumes if (name := claim_of(each))}


def _strip(document: JsonObject) -> JsonObject:
    """The object as its user made it: without status, and without what the server and the past have put on it."""
    was = document.get("metadata") or {}
    kept = {key: was[key] for key in ("name", "namespace", "uid", "labels", "creationTimestamp") if was.get(key)}
    annotations = {key: value for key, value in _items(was.get("annotations")) if not key.startswith(_HISTORY)}
    return {"metadata": {**kept, "annotations": annotations}, "spec": document.get("spec") or {}}


def _items(found: JsonObject | None) -> Iterable[tuple[str, str]]:
    return (found or {}).items()
