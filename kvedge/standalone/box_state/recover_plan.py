"""What `kvedge recover` makes of disks whose objects are lost: volumes that stay, their claims,
their snapshots, and their VMs, stopped.

Called by the run. Pure. Nothing that exists is changed: what has the place of something that would be made is told.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct, field

from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.disks.snapshot_names import SNAPSHOTS_AT_ONCE
from kvedge.resources.disks.state_claims import keeps_tpm, mark_origin
from kvedge.resources.instancetypes.kept_types import without_revision_names
from kvedge.resources.meta import ObjectMeta, ObjectReference
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.types.core import Namespace
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from kvedge.resources.types.storage import (
    BLOCK,
    FILESYSTEM,
    LocalVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    VolumeResources,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.quantities import format_bytes, parse_bytes
from kvedge.resources.values.saved_memory import RESUME_MEMORY
from kvedge.standalone.box_state.note_choice import FoundNote, Named, choose_claims, choose_vms
from kvedge.standalone.box_state.recovered_snapshots import FoundSnapshot, plan_snapshots
from kvedge.standalone.volumes.kept_manifests import claims_of_vm
from kvedge.standalone.volumes.volume_manifest import PLACE_ANNOTATION
from kvedge.standalone.volumes.volume_words import DATA_PROTECTION, HOST_NAME_LABEL, PROVISIONED_BY, PROVISIONER

# Annotations that no new VM may say: what belongs to them is lost with all else.
_LOST: Final = (KEPT_TYPES, RESUME_MEMORY)
RECOVERED: Final = "kvedge.io/recovered"
_PREFIX: Final = "pvc-"
_RETAIN: Final = "Retain"
Made: TypeAlias = (
    Namespace | PersistentVolume | PersistentVolumeClaim | VolumeSnapshotContent | VolumeSnapshot | VirtualMachine
)


class FoundVolume(Struct, frozen=True):
    """One volume on disk: its name is the UID of the claim that it was made for."""

    name: str
    place: str
    path: Path
    size: int
    block: bool
    at_once: bool = False


class Present(Struct, frozen=True):
    """The names of claims, VMs and namespaces that the box has already, and the UIDs of the claims."""

    uids: Collection[str] = ()
    claims: Collection[Named] = ()
    vms: Collection[Named] = ()
    namespaces: Collection[str] = ()
    snapshots: Collection[Named] = ()


class RecoverPlan(Struct):
    """What is to be made, in this order, and what is not, with the reason."""

    make: list[Made] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


def plan_recovery(
    found: Sequence[FoundVolume],
    notes: Sequence[FoundNote],
    present: Present,
    *,
    node: str,
    namespace: str,
    snapshots: Sequence[FoundSnapshot] = (),
) -> RecoverPlan:
    """All that can be made anew of volumes and snapshots that no object names.

    Those without a note become claims and VolumeSnapshots in `namespace`.
    """
    plan, claims = RecoverPlan(), set(present.claims)
    places: dict[str, set[str]] = {}
    for volume in found:
        places.setdefault(volume.name, set()).add(volume.place)
    choice = choose_claims(notes, places)
    plan.told += choice.told
    spaces: dict[str, Namespace] = {}
    objects: list[Made] = []
    for volume in sorted(found, key=lambda each: (each.place, each.name)):
        if volume.name in present.uids:
            plan.told.append(f"volume {volume.name} is being made for a claim that is there: left alone")
            continue
        if why := choice.left.get(volume.name):
            plan.told.append(f"volume {volume.name}: {why}: left alone")
            continue
        if len(places[volume.name]) > 1 and choice.places.get(volume.name) != volume.place:
            plan.told.append(f"volume {volume.name} lies in another place too: that in {volume.place} is left alone")
            continue
        claim = _claim(choice.claims.get(volume.name), volume, namespace)
        name = (claim.metadata.namespace, claim.metadata.name)
        if name in claims:
            plan.told.append(f"volume {volume.name}: claim {'/'.join(name)} exists and has another: left alone")
            choice.doubtful.add(name)
            continue
        claims.add(name)
        _want_namespace(name[0], present, spaces)
        objects += [_volume(volume, claim, node), claim]
    vms, told = choose_vms(notes)
    plan.told += told
    for document in vms:
        _add_vm(document, claims - choice.doubtful, present, spaces, objects, plan)
    kept, told = plan_snapshots(snapshots, notes, present.snapshots, namespace)
    plan.told += told
    for item in kept:
        if isinstance(item, VolumeSnapshot):
            _want_namespace(item.metadata.namespace, present, spaces)
    plan.make = [*spaces.values(), *objects, *kept]
    return plan


def _add_vm(
    document: JsonObject,
    claims: Collection[Named],
    present: Present,
    spaces: dict[str, Namespace],
    objects: list[Made],
    plan: RecoverPlan,
) -> None:
    try:
        vm = _vm(document)
    except (DecodeError, TypeError, ValueError, AttributeError) as error:
        plan.told.append(f"a VM's note cannot be read: {error}")
        return
    space, name = vm.metadata.namespace, vm.metadata.name
    if (space, name) in present.vms:
        return
    if lost := sorted(claim for claim in claims_of_vm(vm) if (space, claim) not in claims):
        plan.told.append(f"VM {space}/{name}: its claims {', '.join(lost)} are not here or in doubt: it is not made")
        return
    _want_namespace(space, present, spaces)
    objects.append(vm)


def _want_namespace(name: str, present: Present, spaces: dict[str, Namespace]) -> None:
    if name not in present.namespaces:
        spaces.setdefault(name, decode(Namespace, {"metadata": {"name": name}}))


def _claim(document: JsonObject | None, volume: FoundVolume, namespace: str) -> PersistentVolumeClaim:
    """The claim as it was, of that volume; one that nobody knows gets a name by the volume's."""
    try:
        was = None if document is None else decode(PersistentVolumeClaim, document)
    except DecodeError:
        was = None
    if was is None or not was.metadata.name or not was.metadata.namespace:
        metadata = ObjectMeta(name=f"recovered-{volume.name}", namespace=namespace, annotations={RECOVERED: "true"})
        spec = PersistentVolumeClaimSpec(access_modes=["ReadWriteOnce"], storage_class_name=volume.place)
        wanted = volume.size
    else:
        metadata = ObjectMeta(
            name=was.metadata.name,
            namespace=was.metadata.namespace,
            labels=dict(was.metadata.labels),
            annotations={**was.metadata.annotations, RECOVERED: "true"},
        )
        spec = PersistentVolumeClaimSpec(
            access_modes=list(was.spec.access_modes), storage_class_name=was.spec.storage_class_name
        )
        wanted = min(volume.size, int(parse_bytes(was.spec.resources.requests.get("storage", volume.size))))
    spec.volume_mode = BLOCK if volume.block else FILESYSTEM
    spec.volume_name = f"{_PREFIX}{volume.name}"
    spec.resources = VolumeResources(requests={"storage": format_bytes(wanted)})
    return PersistentVolumeClaim(metadata=metadata, spec=spec)


def _volume(volume: FoundVolume, claim: PersistentVolumeClaim, node: str) -> PersistentVolume:
    """The volume as an object that stays when its claim goes, until somebody says otherwise."""
    term = {"matchExpressions": [{"key": HOST_NAME_LABEL, "operator": "In", "values": [node]}]}
    return PersistentVolume(
        metadata=ObjectMeta(
            name=f"{_PREFIX}{volume.name}",
            annotations={
                PROVISIONED_BY: PROVISIONER,
                PLACE_ANNOTATION: volume.place,
                RECOVERED: "true",
                **({SNAPSHOTS_AT_ONCE: "true"} if volume.at_once else {}),
            },
            finalizers=[DATA_PROTECTION],
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": format_bytes(volume.size)},
            access_modes=list(claim.spec.access_modes),
            volume_mode=claim.spec.volume_mode or FILESYSTEM,
            storage_class_name=claim.spec.storage_class_name or "",
            persistent_volume_reclaim_policy=_RETAIN,
            claim_ref=ObjectReference(
                api_version="v1",
                kind="PersistentVolumeClaim",
                namespace=claim.metadata.namespace,
                name=claim.metadata.name,
            ),
            node_affinity={"required": {"nodeSelectorTerms": [term]}},
            local=LocalVolume(path=str(volume.path)),
        ),
    )


def _vm(document: JsonObject) -> VirtualMachine:
    """The VM, which does not run; its DataVolumes have become the claims, as nothing may fill these anew."""
    # The copies of its types are lost with all else.
    spec: JsonObject = copy.deepcopy(without_revision_names(document.get("spec") or {}))
    if spec.pop("running", None) is not None:
        spec["running"] = False
    else:
        spec["runStrategy"] = "Halted"
    gone = set()
    inner = (spec.get("template") or {}).get("spec") or {}
    # A memory dump's claim is a VM's by its status, which is lost.
    volumes = [each for each in inner.get("volumes") or () if "memoryDump" not in each]
    for volume in volumes:
        if data_volume := volume.pop("dataVolume", None):
            gone.add(data_volume["name"])
            more = {key: value for key, value in data_volume.items() if key != "name"}
            volume["persistentVolumeClaim"] = {**more, "claimName": data_volume["name"]}
    if inner.get("volumes"):
        inner["volumes"] = volumes
    templates = spec.pop("dataVolumeTemplates", None) or ()
    if left := [each for each in templates if (each.get("metadata") or {}).get("name") not in gone]:
        spec["dataVolumeTemplates"] = left
    was = document.get("metadata") or {}
    annotations = {key: value for key, value in (was.get("annotations") or {}).items() if key not in _LOST}
    metadata = {
        "name": was["name"],
        "namespace": was["namespace"],
        "labels": was.get("labels") or {},
        "annotations": {**annotations, RECOVERED: "true"},
    }
    vm = decode(VirtualMachine, {"metadata": metadata, "spec": spec})
    if vm.spec.template is not None and keeps_tpm(vm.spec.template.spec):
        # Its UID is new, and its TPM is not: its backups ask whose it is.
        vm.metadata.annotations.update(mark_origin(was))
    return vm
