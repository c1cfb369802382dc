"""Whether a restore brings memory back, what it says where it does not, and the word by which the next start has it.

Called by the plans of restores. Pure. Memory belongs to the disks of its moment, and to the very VM: firmware UUID and
MACs are in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvedge.controller.snapshots.memory.memory_backup import MEMORY, holds_memory
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.snapshot_names import RESTORE_MEMORY, restored_name
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshotContent,
    VolumeRestore,
)
from kvedge.resources.values.saved_memory import RESUME_MEMORY, write_resume


def why_without_memory(restore: VirtualMachineRestore, content: VirtualMachineSnapshotContent, *, same: bool) -> str:
    """Why a snapshot's memory is left out; empty when it is not, or there is none. `same`: the VM is the snapshot's."""
    if not holds_memory(content):
        return ""
    if restore.metadata.annotations.get(RESTORE_MEMORY) == "false":
        return "as the restore says"
    return "" if same else "it goes back into the VM alone that it was taken of"


def brings_memory(restore: VirtualMachineRestore, content: VirtualMachineSnapshotContent, *, same: bool) -> bool:
    """Whether the VM's next start goes on from the snapshot's memory."""
    return holds_memory(content) and not why_without_memory(restore, content, same=same)


def memory_restore(restore: VirtualMachineRestore, copy: str) -> VolumeRestore:
    """The claim that the memory is copied into, from which it is taken once."""
    name = restored_name(restore.metadata.uid, "memory")
    return VolumeRestore(volume_name=MEMORY, persistent_volume_claim=name, volume_snapshot_name=copy)


def is_memory_restore(volume: VolumeRestore) -> bool:
    """Whether this is no disk."""
    return volume.volume_name == MEMORY


def is_disk_restore(volume: VolumeRestore) -> bool:
    """Whether this is a disk, and neither memory nor the state of TPM and UEFI firmware."""
    return volume.volume_name not in (MEMORY, STATE_VOLUME)


def mark_memory(volumes: Sequence[VolumeRestore]) -> dict[str, str | None]:
    """The annotations of the exchange: an earlier restore's memory must not meet the disks of this one."""
    memory = next((each.persistent_volume_claim for each in volumes if is_memory_restore(each)), None)
    disks = {each.volume_name: each.persistent_volume_claim for each in volumes if is_disk_restore(each)}
    return {RESUME_MEMORY: None if memory is None else write_resume(memory, disks)}
