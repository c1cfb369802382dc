"""The claim of a DataVolume: its size, modes and class, or what keeps it from being made.

Called by data_volume_plan.py. Pure. `pvc:` is a claim as it is written; `storage:` says what the disk needs, and what
it leaves out comes from the StorageProfile of its class. A disk of that size then fits, as the claim is made larger by
what its file system may take for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from msgspec import Struct

from kvedge.controller.datavolumes.storage_facts.provisioners import find_property_sets
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.data_volume_names import (
    APP,
    APP_LABEL,
    ARCHIVE_CONTENT,
    BIND_IMMEDIATELY,
    CONTENT_TYPE,
    CREATED_FOR,
    DEFAULT_CLASS,
    DEFAULT_VIRT_CLASS,
    KUBEVIRT_CONTENT,
    POPULATED_FOR,
    PRE_POPULATED,
    UPLOAD_TARGET,
)
from kvedge.resources.disks.default_class import ClassSeen, default_class_name
from kvedge.resources.disks.filesystem_overhead import filesystem_overhead
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.types.data_volumes import CdiConfig, ClaimPropertySet, DataVolume, StorageProfile
from kvedge.resources.types.storage import (
    BLOCK,
    FILESYSTEM,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    StorageClass,
    VolumeResources,
)
from kvedge.resources.values.quantities import parse_bytes, parse_quantity

_STORAGE: Final = "storage"
_MIB: Final = 1 << 20
NOT_VALID: Final = "ErrClaimNotValid"


class ClaimProblem(Struct, frozen=True):
    """Why there is no claim (yet): an event's reason and text."""

    reason: str
    message: str


class StorageSeen(Struct, frozen=True):
    """The cluster's storage: its classes, the profile of each by name, and the configuration, if there is one."""

    classes: Sequence[StorageClass] = ()
    profiles: Sequence[StorageProfile] = ()
    config: CdiConfig | None = None

    def class_of(self, name: str | None, *, virt: bool) -> StorageClass | None:
        """The class of that name, or the default one for None; `virt` prefers the default for virtual machines."""
        if name is not None:
            return next((item for item in self.classes if item.metadata.name == name), None)
        marks = (DEFAULT_VIRT_CLASS, DEFAULT_CLASS) if virt else (DEFAULT_CLASS,)
        for mark in marks:
            chosen = default_class_name((ClassSeen.of(item.metadata) for item in self.classes), mark)
            if chosen is not None:
                return next(item for item in self.classes if item.metadata.name == chosen)
        return None

    def property_sets(self, class_name: str) -> Sequence[ClaimPropertySet]:
        """What claims of a class can be."""
        found = next((item for item in self.profiles if item.metadata.name == class_name), None)
        if found is not None and found.status.claim_property_sets:
            return found.status.claim_property_sets
        # A class that has just come has no profile yet, and virtctl gives up at the first "not valid".
        made = self.class_of(class_name, virt=False)
        return () if made is None else find_property_sets(made.provisioner)

    def overhead(self, class_name: str | None) -> Fraction:
        """The part of a claim that its file system may take."""
        return parse_quantity(filesystem_overhead(self.config or CdiConfig(), class_name))


def parse_wanted_size(dv: DataVolume) -> int:
    """What is asked for, in bytes; 0 when nothing is.

    Raises:
        QuantityError: when it is no quantity.
    """
    resources = dv.spec.storage.resources if dv.spec.storage else dv.spec.pvc.resources if dv.spec.pvc else None
    return 0 if resources is None else parse_bytes(resources.requests.get(_STORAGE, 0))


def claim_size(claim: PersistentVolumeClaim) -> int:
    """What a claim asks for, in bytes."""
    return parse_bytes(claim.spec.resources.requests.get(_STORAGE, 0))


def disk_size(dv: DataVolume, claim: PersistentVolumeClaim, storage: StorageSeen) -> int:
    """What the guest's disk shall have in a claim, in bytes; 0 leaves it to the device or to a clone's source."""
    if claim.is_block or dv.spec.content_type == ARCHIVE_CONTENT:
        return 0
    wanted = parse_wanted_size(dv)
    if dv.spec.storage is not None:
        return wanted
    usable = claim_size(claim) * (1 - storage.overhead(claim.spec.storage_class_name))
    return int(usable) // _MIB * _MIB


def plan_claim(
    dv: DataVolume, storage: StorageSeen, source: PersistentVolumeClaim | None, mode: str | None = None
) -> PersistentVolumeClaim | ClaimProblem:
    """The claim to make; `source` is that of a clone, whose size holds where the DataVolume names none.

    `mode` is the volume mode that holds where the DataVolume names none: a volume of a snapshot has that of its source.
    """
    spec = _spec_of_pvc(dv) if dv.spec.pvc is not None else _spec_of_storage(dv, storage, source, mode)
    if isinstance(spec, ClaimProblem):
        return spec
    if dv.spec.content_type == ARCHIVE_CONTENT and spec.volume_mode == BLOCK:
        return ClaimProblem(NOT_VALID, "ContentType Archive cannot have block volumeMode")
    return PersistentVolumeClaim(metadata=_metadata(dv), spec=spec)


def claim_annotations(dv: DataVolume) -> dict[str, str]:
    """What a claim says of its DataVolume, beside what users have written there."""
    made = {CONTENT_TYPE: dv.spec.content_type or KUBEVIRT_CONTENT}
    if dv.spec.source is not None and dv.spec.source.upload is not None:
        made[UPLOAD_TARGET] = ""
    if PRE_POPULATED in dv.metadata.annotations:
        made[POPULATED_FOR] = dv.metadata.name
    return made


# A disk fills its claim from the beginning: Kubernetes' alert of claims that fill up would tell nothing.
_NO_ALERT: Final = {"alerts.k8s.io/KubePersistentVolumeFillingUp": "disabled"}


def _metadata(dv: DataVolume) -> ObjectMeta:
    meta = dv.metadata
    passed = {key: value for key, value in meta.annotations.items() if not key.startswith("kubectl.kubernetes.io/")}
    return ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        labels={**meta.labels, APP_LABEL: APP, **_NO_ALERT},
        annotations={**passed, **claim_annotations(dv), CREATED_FOR: meta.uid},
        owner_references=[owner_reference(dv)],
    )


def _spec_of_pvc(dv: DataVolume) -> PersistentVolumeClaimSpec:
    spec = dv.spec.pvc
    assert spec is not None
    return PersistentVolumeClaimSpec(
        access_modes=list(spec.access_modes),
        resources=spec.resources,
        volume_mode=spec.volume_mode,
        storage_class_name=spec.storage_class_name,
        volume_name=spec.volume_name,
        selector=spec.selector,
        data_source=spec.data_source,
        data_source_ref=spec.data_source_ref,
    )


def _spec_of_storage(
    dv: DataVolume, storage: StorageSeen, source: PersistentVolumeClaim | None, model_mode: str | None
) -> PersistentVolumeClaimSpec | ClaimProblem:
    spec = dv.spec.storage
    assert spec is not None
    found = storage.class_of(spec.storage_class_name, virt=True)
    class_name = spec.storage_class_name if found is None else found.metadata.name
    modes, mode = list(spec.access_modes), spec.volume_mode
    if dv.spec.content_type == ARCHIVE_CONTENT and mode is None:
        mode = FILESYSTEM
    if mode is None and model_mode is not None:
        mode = model_mode
    if not modes or mode is None:
        chosen = _properties(modes, mode, class_name, storage)
        if isinstance(chosen, ClaimProblem):
            return chosen
        modes, mode = chosen
    size = _claim_bytes(dv, storage, source, class_name, block=mode == BLOCK)
    if isinstance(size, ClaimProblem):
        return size
    resources = VolumeResources(requests={_STORAGE: str(size)}, limits=spec.resources.limits)
    return PersistentVolumeClaimSpec(
        access_modes=modes,
        resources=resources,
        volume_mode=mode,
        storage_class_name=class_name,
        volume_name=spec.volume_name,
        selector=spec.selector,
        data_source=spec.data_source,
        data_source_ref=spec.data_source_ref,
    )


def _properties(
    modes: list[str], mode: str | None, class_name: str | None, storage: StorageSeen
) -> tuple[list[str], str | None] | ClaimProblem:
    """Access modes and volume mode, with what is left out taken from the profile."""
    if not class_name:
        if modes:
            return modes, mode
        return ClaimProblem(NOT_VALID, "PVC spec is missing accessMode and no storageClass to choose profile")
    for known in storage.property_sets(class_name):
        if mode is not None and known.volume_mode not in (None, mode):
            continue
        if modes and not set(modes) <= set(known.access_modes):
            continue
        chosen = modes or list(known.access_modes)
        if chosen:
            return chosen, mode or known.volume_mode
    if modes:
        return modes, mode
    missing = "accessMode and volumeMode, cannot" if mode is None else "accessMode and cannot"
    return ClaimProblem(NOT_VALID, f"Spec is missing {missing} get access mode from StorageProfile {class_name}")


def _claim_bytes(
    dv: DataVolume, storage: StorageSeen, source: PersistentVolumeClaim | None, class_name: str | None, *, block: bool
) -> int | ClaimProblem:
    wanted = parse_wanted_size(dv)
    if not wanted:
        if source is None:
            return ClaimProblem(NOT_VALID, "PVC size is missing")
        wanted = claim_size(source)
        if block or not source.is_block:
            # A copy into the same kind of claim needs what the source has.
            return wanted
    return wanted if block else with_overhead(wanted, storage.overhead(class_name))


def with_overhead(size: int, overhead: Fraction) -> int:
    """How large a claim must be for a disk of `size` bytes to fit, in whole MiB."""
    # A file system that takes all of a claim holds no disk, whatever its size.
    whole = Fraction(size) / (1 - overhead) if overhead < 1 else Fraction(size)
    return -(-whole // _MIB) * _MIB


def binds_late(storage_class: StorageClass | None) -> bool:
    """Whether claims of a class wait for a Pod that uses them."""
    return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"


def binds_at_once(dv: DataVolume) -> bool:
    """Whether its user has asked not to wait for a consumer."""
    return BIND_IMMEDIATELY in dv.metadata.annotations


def merge_owner(claim: PersistentVolumeClaim, dv: DataVolume) -> JsonObject:
    """A merge patch that makes a claim this DataVolume's."""
    others = [owner for owner in claim.metadata.owner_references if owner.uid != dv.metadata.uid]
    return {"metadata": {"ownerReferences": [encode(owner) for owner in (*others, owner_reference(dv))]}}
