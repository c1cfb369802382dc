"""VolumeSnapshots, by which a storage driver keeps a VM's disks: when they are used, what they are, how they are put
back.

Called by the plans of snapshots and restores. Pure. Drivers snapshot each claim for itself: several of them are of one
point in time if the guest wrote nothing meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kvedge.controller.snapshots.snapshot_view import DriverClasses
from kvedge.controller.snapshots.volume_copies import claim_like
from kvedge.resources.codec import decode
from kvedge.resources.disks.snapshot_names import (
    CLAIM_COPIES,
    HELD_BY,
    METHOD,
    RUN,
    SOURCE_VM_NAME,
    SOURCE_VM_NAMESPACE,
    VOLUME_SNAPSHOTS,
)
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.types.data_volumes import DataVolumeSpec
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeBackup,
    VolumeSnapshotStatus,
)
from kvedge.resources.types.protection.volume_snapshots import (
    VOLUME_SNAPSHOT_GROUP,
    SnapshottedClaim,
    VolumeSnapshot,
    VolumeSnapshotSpec,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.label_values import as_label_value
from kvedge.resources.values.quantities import parse_bytes
from kvedge.resources.vmi_facts import has_agent, is_paused

# What keeps the guest from writing: its agent, or that it is paused. Nothing does where one disk is taken as it is.
BY_AGENT: Final = "agent"
BY_PAUSE: Final = "pause"
BY_NOTHING: Final = "nothing"
_WINDOWS: Final = "mswindows"
_STORAGE: Final = "storage"


def is_of_driver(content: VirtualMachineSnapshotContent) -> bool:
    """Whether a storage driver keeps its disks."""
    return content.metadata.annotations.get(METHOD) == VOLUME_SNAPSHOTS


def choose_driver(
    snapshot: VirtualMachineSnapshot,
    claims: Collection[str],
    vmi: VirtualMachineInstance | None,
    classes: Collection[str],
) -> bool:
    """Whether the drivers take this snapshot: `claims` are those that it is to hold, `classes` has those of which they
    can.

    Not when one claim has no such driver, and not when a guest that runs would write to one disk after another one was
    taken: then it is copied by its launcher, which has one moment for all disks.
    """
    if not claims or snapshot.metadata.annotations.get(METHOD) == CLAIM_COPIES or not set(claims) <= set(classes):
        return False
    if vmi is None or vmi.is_final or len(claims) == 1:
        return True
    # Windows thaws by itself after 10 s, and nobody is told.
    return is_paused(vmi) or (has_agent(vmi) and not is_windows(vmi))


def find_class_doubt(
    snapshot: VirtualMachineSnapshot,
    claims: Collection[str],
    vmi: VirtualMachineInstance | None,
    classes: DriverClasses,
) -> str:
    """Why the drivers cannot take yet what is theirs to take; empty when they can, or are not needed."""
    unclear = next((why for _, why in sorted(classes.doubts.items())), "")
    if not unclear or not choose_driver(snapshot, claims, vmi, {*classes.by_claim, *classes.doubts}):
        return ""
    return f"{unclear}, or the snapshot with {METHOD}={CLAIM_COPIES}"


def hold_of(vmi: VirtualMachineInstance) -> str:
    """What keeps the guest of a run from writing meanwhile."""
    if is_paused(vmi):
        return BY_PAUSE
    return BY_AGENT if has_agent(vmi) else BY_NOTHING


def mark_driver(vmi: VirtualMachineInstance | None) -> dict[str, str]:
    """What the content says of how its disks are taken; the run is None for a VM that does not run."""
    if vmi is None:
        return {METHOD: VOLUME_SNAPSHOTS}
    return {METHOD: VOLUME_SNAPSHOTS, RUN: vmi.metadata.uid, HELD_BY: hold_of(vmi)}


def is_windows(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest's agent says that it is Windows."""
    return vmi.status.guest_os_info is not None and vmi.status.guest_os_info.id == _WINDOWS


def make_driver_snapshot(
    content: VirtualMachineSnapshotContent, backup: VolumeBackup, class_name: str | None, vm: str
) -> VolumeSnapshot:
    """What has the driver take the snapshot of one volume."""
    namespace = content.metadata.namespace
    meta = ObjectMeta(
        name=backup.volume_snapshot_name or "",
        namespace=namespace,
        labels={SOURCE_VM_NAME: as_label_value(vm), SOURCE_VM_NAMESPACE: namespace},
        owner_references=[owner_reference(content)],
    )
    claim = str(backup.persistent_volume_claim.metadata.get("name", ""))
    source = SnapshottedClaim(persistent_volume_claim_name=claim)
    return VolumeSnapshot(metadata=meta, spec=VolumeSnapshotSpec(volume_snapshot_class_name=class_name, source=source))


def is_of_content(item: VolumeSnapshot, content: VirtualMachineSnapshotContent) -> bool:
    """Whether a VolumeSnapshot was made for this content."""
    return any(owner.uid == content.metadata.uid for owner in item.metadata.owner_references)


def is_taken(item: VolumeSnapshot | None) -> bool:
    """Whether the driver has fixed the moment: what is written from then on is not in it."""
    return item is not None and bool(item.status.creation_time)


def is_kept(item: VolumeSnapshot | None, content: VirtualMachineSnapshotContent) -> bool:
    """Whether there is one of this content that is not being deleted."""
    return item is not None and is_of_content(item, content) and item.metadata.deletion_timestamp is None


def driver_states(
    content: VirtualMachineSnapshotContent, found: Mapping[str, VolumeSnapshot]
) -> list[VolumeSnapshotStatus]:
    """What the content's status says of each."""
    states = []
    for backup in content.spec.volume_backups:
        name = backup.volume_snapshot_name or ""
        item = found.get(name)
        if item is None or not is_kept(item, content):
            states.append(VolumeSnapshotStatus(volume_snapshot_name=name, ready_to_use=False))
            continue
        status = item.status
        states.append(
            VolumeSnapshotStatus(
                volume_snapshot_name=name,
                creation_time=status.creation_time,
                ready_to_use=is_taken(item) and bool(status.ready_to_use),
                error=status.error,
            )
        )
    return states


def describe_driver_fault(content: VirtualMachineSnapshotContent, found: Mapping[str, VolumeSnapshot]) -> str:
    """The first error that a driver tells of, in KubeVirt's words; empty when none does."""
    for state in driver_states(content, found):
        if state.error is not None and not state.ready_to_use:
            return f"VolumeSnapshot {state.volume_snapshot_name} error: {state.error.message or 'not told'}"
    return ""


def fill_from(backup: VolumeBackup, item: VolumeSnapshot) -> DataVolumeSpec:
    """What makes a claim of a VolumeSnapshot: its driver fills it as it makes the volume."""
    was = decode(
        PersistentVolumeClaim,
        {"metadata": {"name": item.metadata.name}, "spec": dict(backup.persistent_volume_claim.spec)},
    )
    # Some drivers refuse a claim that is smaller than what the snapshot needs.
    was.status.capacity = {_STORAGE: str(parse_bytes(item.status.restore_size or 0))}
    spec = claim_like(was)
    spec.data_source = {"apiGroup": VOLUME_SNAPSHOT_GROUP, "kind": VolumeSnapshot.KIND.kind, "name": item.metadata.name}
    return DataVolumeSpec(pvc=spec)
