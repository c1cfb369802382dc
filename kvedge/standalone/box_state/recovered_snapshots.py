"""What `kvedge recover` makes of snapshots whose objects are lost: contents that stay, and the VolumeSnapshots of them.

Called by the plan of recovery. Pure. A VolumeSnapshot that comes back is one of a content that was there before: what
it was taken of may be lost.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from msgspec import Struct

from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.meta import ObjectMeta, ObjectReference
from kvedge.resources.types.protection.volume_snapshots import (
    ContentSource,
    SnapshottedClaim,
    VolumeSnapshot,
    VolumeSnapshotContent,
    VolumeSnapshotContentSpec,
    VolumeSnapshotSpec,
)
from kvedge.resources.types.storage import BLOCK, FILESYSTEM
from kvedge.standalone.box_state.note_choice import FoundNote, Named
from kvedge.standalone.volumes.snapshot_words import RETAIN, make_handle
from kvedge.standalone.volumes.volume_words import PROVISIONER

RecoveredSnapshot: TypeAlias = VolumeSnapshotContent | VolumeSnapshot


class FoundSnapshot(Struct, frozen=True):
    """One snapshot on disk that no content names."""

    name: str
    place: str
    block: bool


def plan_snapshots(
    found: Sequence[FoundSnapshot], notes: Sequence[FoundNote], present: Collection[Named], namespace: str
) -> tuple[list[RecoveredSnapshot], list[str]]:
    """A content and its VolumeSnapshot for each, and what is to be told; those without a note get new names."""
    made: list[RecoveredSnapshot] = []
    told: list[str] = []
    taken = set(present)
    noted = {(each.place, each.note.volume): each.note.snapshot for each in notes if each.note.snapshot is not None}
    for snapshot in sorted(found, key=lambda each: (each.place, each.name)):
        was = _read(noted.get((snapshot.place, snapshot.name)))
        meta = was or ObjectMeta(name=f"recovered-{snapshot.name}", namespace=namespace)
        name = (meta.namespace, meta.name)
        if name in taken:
            told.append(f"{snapshot.name}: VolumeSnapshot {'/'.join(name)} exists: left alone")
            continue
        taken.add(name)
        content = f"recovered-{snapshot.place}-{snapshot.name}"
        made += [_content(content, snapshot, meta), _snapshot(content, meta)]
    return made, told


def _content(name: str, snapshot: FoundSnapshot, of: ObjectMeta) -> VolumeSnapshotContent:
    return VolumeSnapshotContent(
        metadata=ObjectMeta(name=name),
        spec=VolumeSnapshotContentSpec(
            volume_snapshot_ref=ObjectReference(
                api_version=VolumeSnapshot.KIND.api_version,
                kind=VolumeSnapshot.KIND.kind,
                namespace=of.namespace,
                name=of.name,
            ),
            # Until somebody says otherwise, as with volumes.
            deletion_policy=RETAIN,
            driver=PROVISIONER,
            source=ContentSource(snapshot_handle=make_handle(snapshot.place, snapshot.name)),
            source_volume_mode=BLOCK if snapshot.block else FILESYSTEM,
        ),
    )


def _snapshot(content: str, of: ObjectMeta) -> VolumeSnapshot:
    source = SnapshottedClaim(volume_snapshot_content_name=content)
    metadata = ObjectMeta(name=of.name, namespace=of.namespace, labels=of.labels, annotations=of.annotations)
    return VolumeSnapshot(metadata=metadata, spec=VolumeSnapshotSpec(source=source))


def _read(document: JsonObject | None) -> ObjectMeta | None:
    try:
        found = None if document is None else decode(VolumeSnapshot, document).metadata
    except DecodeError:
        return None
    return found if found is not None and found.name and found.namespace else None
