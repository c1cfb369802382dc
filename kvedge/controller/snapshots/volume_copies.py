"""The volumes of a VM that a snapshot holds, and the claims that hold them.

Called by the plans of snapshots and restores. Pure. A copy is a claim of its own, like the one that it is made of, and
a DataVolume fills it: the workers of DataVolumes share blocks where a file system can, and keep holes where it cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import BIND_IMMEDIATELY, PRE_POPULATED
from kvedge.resources.disks.claim_facts import is_of_data_volume
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.snapshot_names import SEALED_CLAIM, SOURCE_VM_NAME, SOURCE_VM_NAMESPACE
from kvedge.resources.disks.state_claims import keeps_state, state_claim_of
from kvedge.resources.disks.volume_facts import lasting_claim
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.types.data_volumes import (
    DataVolume,
    DataVolumeOrigin,
    DataVolumeSpec,
    ObjectName,
    StorageSpec,
    data_volume_condition,
)
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContent, VolumeBackup
from kvedge.resources.types.storage import PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResources
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.label_values import as_label_value
from kvedge.resources.values.quantities import parse_bytes

_STORAGE: Final = "storage"
_MIB: Final = 1 << 20
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
# A worker has begun to copy.
_COPYING: Final = ("CloneInProgress", SUCCEEDED)


def lasting_claims(vm: VirtualMachine) -> dict[str, str]:
    """The claims that a snapshot holds, by volume."""
    volumes = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    return {volume.name: claim for volume in volumes if (claim := lasting_claim(volume)) is not None}


def kept_claims(
    vm: VirtualMachine, vmi: VirtualMachineInstance | None, claims: Mapping[str, PersistentVolumeClaim]
) -> dict[str, str]:
    """Those, and the one that keeps the state of its TPM and UEFI firmware; `claims` are those that there are.

    Of a VM that runs, if the run has it. A claim that was never bound has no state.
    """
    name = state_claim_of(vm.metadata)
    has_it = name in claims and claims[name].status.phase == "Bound"
    if vmi is not None and not vmi.is_final:
        has_it = has_it and keeps_state(vmi.spec) and state_claim_of(vmi.metadata) == name
    return {**lasting_claims(vm), **({STATE_VOLUME: name} if has_it else {})}


def holds_state(content: VirtualMachineSnapshotContent) -> bool:
    """Whether it has the state of the VM's TPM and UEFI firmware."""
    return any(each.volume_name == STATE_VOLUME for each in content.spec.volume_backups)


def left_out_volumes(vm: VirtualMachine, claims: Collection[str], content: VirtualMachineSnapshotContent) -> list[str]:
    """The volumes of which a snapshot holds no data; `claims` are the names of those that there are."""
    volumes = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    left = [volume.name for volume in volumes if lasting_claim(volume) is None]
    return [*left, STATE_VOLUME] if _lacks_state(vm, claims, content) else left


def loses_data(vm: VirtualMachine, claims: Collection[str], content: VirtualMachineSnapshotContent) -> bool:
    """Whether the VM has data that lasts and that the snapshot does not hold: files of its node, state of its TPM that
    the run does not have.
    """
    volumes = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    return _lacks_state(vm, claims, content) or any(volume.host_disk is not None for volume in volumes)


def _lacks_state(vm: VirtualMachine, claims: Collection[str], content: VirtualMachineSnapshotContent) -> bool:
    return state_claim_of(vm.metadata) in claims and not holds_state(content)


def make_copy(
    content: VirtualMachineSnapshotContent, backup: VolumeBackup, claim: PersistentVolumeClaim, vm: str
) -> DataVolume:
    """What copies the claim of one volume."""
    namespace = content.metadata.namespace
    meta = ObjectMeta(
        name=backup.volume_snapshot_name or "",
        namespace=namespace,
        labels={SOURCE_VM_NAME: as_label_value(vm), SOURCE_VM_NAMESPACE: namespace},
        annotations={BIND_IMMEDIATELY: "true"},
        owner_references=[owner_reference(content)],
    )
    return DataVolume(metadata=meta, spec=copy_of(claim))


def copy_of(claim: PersistentVolumeClaim) -> DataVolumeSpec:
    """What copies a claim into one like it."""
    origin = DataVolumeOrigin(pvc=ObjectName(name=claim.metadata.name, namespace=claim.metadata.namespace))
    like = claim_like(claim)
    if is_of_data_volume(claim) or claim.is_block:
        return DataVolumeSpec(source=origin, pvc=like)
    # A disk that somebody else made may fill its claim; by `storage` the copy's claim has room beside it.
    storage = StorageSpec(
        access_modes=like.access_modes,
        resources=like.resources,
        volume_mode=like.volume_mode,
        storage_class_name=like.storage_class_name,
    )
    return DataVolumeSpec(source=origin, storage=storage)


def claim_like(claim: PersistentVolumeClaim) -> PersistentVolumeClaimSpec:
    """The spec of a claim with the same class, modes and size."""
    asked = parse_bytes(claim.spec.resources.requests.get(_STORAGE, 0))
    size = max(asked, parse_bytes(claim.status.capacity.get(_STORAGE, 0)))
    return PersistentVolumeClaimSpec(
        access_modes=list(claim.spec.access_modes),
        resources=VolumeResources(requests={_STORAGE: str(-(-size // _MIB) * _MIB)}),
        volume_mode=claim.spec.volume_mode,
        storage_class_name=claim.spec.storage_class_name,
    )


def seal(name: str, claim: PersistentVolumeClaim) -> JsonObject:
    """A merge patch that says of a complete copy in which claim it is, and that no other claim is ever filled: the
    VM's disk may have changed since.
    """
    return {"metadata": {"annotations": {PRE_POPULATED: name, SEALED_CLAIM: claim.metadata.uid}}}


def is_sealed(copy: DataVolume) -> bool:
    """Whether a copy is complete, and is never filled again should its claim be deleted."""
    return copy.status.phase == SUCCEEDED and SEALED_CLAIM in copy.metadata.annotations


def is_claim_sealed(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim itself says that it holds a complete copy: one that a running guest's launcher has made."""
    return claim.metadata.annotations.get(SEALED_CLAIM) == claim.metadata.uid


def is_usable(copy: DataVolume | None, claim: PersistentVolumeClaim | None) -> bool:
    """Whether a copy is still what it was when it was sealed: another claim of its name would be empty."""
    if copy is None and claim is not None and is_claim_sealed(claim):
        return claim.metadata.deletion_timestamp is None
    if copy is None or claim is None or not is_sealed(copy):
        return False
    if copy.metadata.deletion_timestamp is not None or claim.metadata.deletion_timestamp is not None:
        return False
    return copy.metadata.annotations[SEALED_CLAIM] == claim.metadata.uid


def is_going_well(copy: DataVolume | None) -> bool:
    """Whether a copy is complete or being made, at the first try."""
    return copy is not None and copy.status.phase in _COPYING and not copy.status.restart_count


def describe_copy(copy: DataVolume | None) -> str:
    """What a copy waits for, or how far it is; empty when nothing is known."""
    if copy is None or copy.status.phase == SUCCEEDED:
        return ""
    for type_ in ("Running", "Bound"):
        found = data_volume_condition(copy.status.conditions, type_)
        if found is not None and found.status == "False" and found.message:
            return f"{copy.metadata.name}: {found.message}"
    return f"{copy.metadata.name}: {copy.status.progress or copy.status.phase or 'not begun'}"


def describe_copies(copies: Mapping[str, DataVolume | None]) -> str:
    """What the first incomplete copy waits for."""
    return next((text for copy in copies.values() if (text := describe_copy(copy))), "")
