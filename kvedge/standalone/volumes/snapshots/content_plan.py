"""What to do next for one VolumeSnapshotContent: its snapshot is taken, found, or taken away. Pure.

Called by the contents' loop. Data is erased in one case alone: the content is being deleted, its policy is Delete, and
no VolumeSnapshot has it that is not being deleted itself.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from kvedge.standalone.volumes.snapshot_words import BEING_DELETED, CONTENT_BOUND, DELETE, split_handle
from kvedge.standalone.volumes.volume_words import PROVISIONER


class Protect(Struct, frozen=True):
    """The content gets its finalizer."""


class Take(Struct, frozen=True):
    """A snapshot of a volume is taken, or found to be there."""

    volume: str
    uid: str


class Find(Struct, frozen=True):
    """The snapshot of this handle is looked for."""

    handle: str


class Fail(Struct, frozen=True):
    """It can never be had as it is."""

    message: str


class Erase(Struct, frozen=True):
    """What it holds is taken away; the loop asks the API itself first."""


class Delete(Struct, frozen=True):
    """Its VolumeSnapshot is gone: the content goes as well."""


class Release(Struct, frozen=True):
    """Nothing keeps the content any more."""


ContentStep: TypeAlias = Protect | Take | Find | Fail | Erase | Delete | Release


def plan_content(content: VolumeSnapshotContent, snapshot: VolumeSnapshot | None) -> tuple[ContentStep, ...]:
    """The next steps; `snapshot` is the one that the content names, None when there is none of that name."""
    spec, meta = content.spec, content.metadata
    if spec.driver != PROVISIONER:
        return ()
    uid = spec.volume_snapshot_ref.uid
    is_had = bool(uid) and snapshot is not None and snapshot.metadata.uid == uid
    if meta.deletion_timestamp is not None:
        if CONTENT_BOUND not in meta.finalizers:
            return ()
        if is_had and snapshot is not None and snapshot.metadata.deletion_timestamp is None:
            # It stays as long as its snapshot does.
            return ()
        return (Erase(), Release()) if spec.deletion_policy == DELETE else (Release(),)
    if CONTENT_BOUND not in meta.finalizers:
        return (Protect(),)
    if uid and not is_had:
        return (Delete(),) if spec.deletion_policy == DELETE else ()
    if content.status.ready_to_use or BEING_DELETED in meta.annotations:
        return ()
    handle = spec.source.snapshot_handle
    if handle is None:
        if not uid:
            return (Fail("spec.volumeSnapshotRef.uid: missing: make a VolumeSnapshot of the claim instead"),)
        return (Take(spec.source.volume_handle or "", uid),)
    if split_handle(handle) is None:
        text = (
            f"spec.source.snapshotHandle: {handle[:128]!r} is none of {PROVISIONER}: its handles are"
            " PLACE/snapshot-UID, as the status of a content shows them"
        )
        return (Fail(text),)
    return (Find(handle),)
