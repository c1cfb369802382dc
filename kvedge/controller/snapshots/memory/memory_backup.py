"""The claim that a guest's memory is saved into, as one more volume of a snapshot's content.

Called by the plans of snapshots and restores, and by exports. Pure. Its name has a dot, which no volume's has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from kvedge.controller.snapshots.volume_copies import lasting_claims
from kvedge.resources.codec import decode
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.memory_dumps import dump_bytes
from kvedge.resources.disks.snapshot_names import (
    MEMORY_CLASS,
    SNAPSHOT_MEMORY,
    SOURCE_VM_NAME,
    SOURCE_VM_NAMESPACE,
    memory_copy_name,
)
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.types.protection.snapshots import (
    BackedUpClaim,
    SourceIndication,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeBackup,
)
from kvedge.resources.types.storage import (
    READ_WRITE_ONCE,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    VolumeResources,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import BackupStatus, VirtualMachineInstance
from kvedge.resources.values.label_values import as_label_value

MEMORY: Final = "guest.memory"
INDICATION: Final = "Memory"
_MEBIBYTE: Final = 1 << 20
# What a file system takes of its claim.
_WITH_OVERHEAD: Final = 1.06


def wants_memory(snapshot: VirtualMachineSnapshot) -> bool:
    """Whether it is to have the guest's memory."""
    return snapshot.metadata.annotations.get(SNAPSHOT_MEMORY) == "true"


def holds_memory(content: VirtualMachineSnapshotContent) -> bool:
    """Whether it has the guest's memory."""
    return any(is_memory(each) for each in content.spec.volume_backups)


def is_memory(backup: VolumeBackup) -> bool:
    """Whether this is no disk."""
    return backup.volume_name == MEMORY


def disk_backups(content: VirtualMachineSnapshotContent) -> list[VolumeBackup]:
    """The volumes that are copies of claims: disks, and the state of TPM and UEFI firmware."""
    return [each for each in content.spec.volume_backups if not is_memory(each)]


def guest_disks(content: VirtualMachineSnapshotContent) -> list[VolumeBackup]:
    """The volumes that are disks."""
    return [each for each in disk_backups(content) if each.volume_name != STATE_VOLUME]


def plan_memory(
    snapshot: VirtualMachineSnapshot,
    vm: VirtualMachine,
    vmi: VirtualMachineInstance,
    claims: Mapping[str, PersistentVolumeClaim],
) -> VolumeBackup:
    """The claim to make: as large as the guest's memory and some more, of the class that is asked for, of that of the
    first disk otherwise.
    """
    first = next((claims[name].spec.storage_class_name for name in lasting_claims(vm).values() if name in claims), None)
    size = math.ceil(_WITH_OVERHEAD * dump_bytes(vmi) / _MEBIBYTE)
    spec = PersistentVolumeClaimSpec(
        access_modes=[READ_WRITE_ONCE],
        resources=VolumeResources(requests={"storage": f"{size}Mi"}),
        volume_mode="Filesystem",
        storage_class_name=snapshot.metadata.annotations.get(MEMORY_CLASS) or first,
    )
    return VolumeBackup(
        volume_name=MEMORY,
        persistent_volume_claim=BackedUpClaim(spec=msgspec.to_builtins(spec)),
        volume_snapshot_name=memory_copy_name(snapshot.metadata.uid),
    )


def make_memory_claim(content: VirtualMachineSnapshotContent, backup: VolumeBackup, vm: str) -> PersistentVolumeClaim:
    """The claim; it goes with the content."""
    namespace = content.metadata.namespace
    meta = ObjectMeta(
        name=backup.volume_snapshot_name or "",
        namespace=namespace,
        labels={SOURCE_VM_NAME: as_label_value(vm), SOURCE_VM_NAMESPACE: namespace},
        owner_references=[owner_reference(content)],
    )
    found = decode(PersistentVolumeClaim, {"metadata": {}, "spec": backup.persistent_volume_claim.spec})
    return PersistentVolumeClaim(metadata=meta, spec=found.spec)


def indicate_memory(told: BackupStatus) -> SourceIndication:
    """That memory is in it, and for how long the guest stood for that."""
    text = f"The guest's memory is in it: downtime {told.downtime_milliseconds} ms."
    return SourceIndication(indication=INDICATION, message=text)
