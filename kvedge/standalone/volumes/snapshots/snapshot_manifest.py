"""The objects of snapshots of one box: its classes, the contents that are made for VolumeSnapshots, their status. Pure.

Called by the loops beside it and by the service.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta, ObjectReference
from kvedge.resources.types.protection.volume_snapshots import (
    ContentSource,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
    VolumeSnapshotContentSpec,
)
from kvedge.resources.types.storage import FILESYSTEM, PersistentVolume
from kvedge.resources.values.quantities import format_bytes
from kvedge.runtime.clock import rfc3339
from kvedge.standalone.volumes.snapshot_words import CONTENT_BOUND, DEFAULT_CLASS, DELETE, content_name
from kvedge.standalone.volumes.volume_words import PROVISIONER
from kvedge.storage.volumes.volume_driver import SnapshotFacts

_NANO: Final = 1_000_000_000
# What a status keeps of a failure's text.
_LONGEST_MESSAGE: Final = 1024


def snapshot_class(name: str) -> VolumeSnapshotClass:
    """The box's own class: by it snapshots are taken of claims in all its places."""
    return VolumeSnapshotClass(
        metadata=ObjectMeta(name=name, annotations={DEFAULT_CLASS: "true"}),
        driver=PROVISIONER,
        deletion_policy=DELETE,
    )


def is_default(item: VolumeSnapshotClass) -> bool:
    """Whether a class is that of snapshots that name none."""
    return item.metadata.annotations.get(DEFAULT_CLASS) == "true"


def content_for(
    snapshot: VolumeSnapshot, made_by: VolumeSnapshotClass, volume: PersistentVolume
) -> VolumeSnapshotContent:
    """The content of a snapshot of this volume, which is then taken for it."""
    meta = snapshot.metadata
    return VolumeSnapshotContent(
        metadata=ObjectMeta(name=content_name(meta.uid), finalizers=[CONTENT_BOUND]),
        spec=VolumeSnapshotContentSpec(
            volume_snapshot_ref=ObjectReference(
                api_version=VolumeSnapshot.KIND.api_version,
                kind=VolumeSnapshot.KIND.kind,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
            ),
            deletion_policy=made_by.deletion_policy or DELETE,
            driver=PROVISIONER,
            source=ContentSource(volume_handle=volume.metadata.name),
            source_volume_mode=volume.spec.volume_mode or FILESYSTEM,
            volume_snapshot_class_name=made_by.metadata.name,
        ),
    )


def ready_status(handle: str, facts: SnapshotFacts) -> JsonObject:
    """The status of a content whose snapshot is there, as a patch."""
    return {
        "snapshotHandle": handle,
        "creationTime": facts.taken,
        "readyToUse": True,
        "restoreSize": facts.size,
        "error": None,
    }


def failed_status(message: str, now: datetime) -> JsonObject:
    """The status of a content or snapshot that could not be taken, as a patch."""
    return {"readyToUse": False, "error": {"time": rfc3339(now), "message": message[:_LONGEST_MESSAGE]}}


def mirrored_status(content: VolumeSnapshotContent) -> JsonObject:
    """The status of a VolumeSnapshot by that of its content, as a patch."""
    status = content.status
    error = status.error
    return {
        "boundVolumeSnapshotContentName": content.metadata.name,
        "readyToUse": bool(status.ready_to_use),
        "creationTime": None if status.creation_time is None else _moment(status.creation_time),
        "restoreSize": None if status.restore_size is None else format_bytes(status.restore_size),
        "error": None if error is None else {"time": error.time, "message": error.message},
    }


def _moment(nanoseconds: int) -> str:
    return rfc3339(datetime.fromtimestamp(nanoseconds // _NANO, UTC))
