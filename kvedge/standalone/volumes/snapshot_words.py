"""The words of the external-snapshotter: finalizers, annotations and names that its tools know.

Used by the plans and loops of snapshots, by the provisioner, and by what looks for lost snapshots. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from kvedge.storage.volumes.volume_driver import SNAPSHOT_PREFIX

_DOMAIN: Final = "snapshot.storage.kubernetes.io"
# On a VolumeSnapshot: no claim is being made of it, and its content has been dealt with.
AS_SOURCE: Final = f"{_DOMAIN}/volumesnapshot-as-source-protection"
BOUND: Final = f"{_DOMAIN}/volumesnapshot-bound-protection"
# On a VolumeSnapshotContent: its data has been dealt with.
CONTENT_BOUND: Final = f"{_DOMAIN}/volumesnapshotcontent-bound-protection"
# On a claim: no snapshot is being taken of it.
CLAIM_AS_SOURCE: Final = f"{_DOMAIN}/pvc-as-source-protection"
# On a VolumeSnapshotContent: its VolumeSnapshot is being deleted.
BEING_DELETED: Final = f"{_DOMAIN}/volumesnapshot-being-deleted"
DEFAULT_CLASS: Final = f"{_DOMAIN}/is-default-class"

DELETE: Final = "Delete"
RETAIN: Final = "Retain"
COMPONENT: Final = "snapshot-controller"

_UID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SNAPSHOT: Final = re.compile(f"{SNAPSHOT_PREFIX}{_UID}")


def content_name(uid: str) -> str:
    """The name of the content that is made for a VolumeSnapshot."""
    return f"snapcontent-{uid}"


def snapshot_name(uid: str) -> str:
    """What the driver calls the snapshot of a VolumeSnapshot."""
    return f"{SNAPSHOT_PREFIX}{uid}"


def is_snapshot_name(name: str) -> bool:
    """Whether something in a place is a snapshot that was made here."""
    return _SNAPSHOT.fullmatch(name) is not None


def make_handle(place: str, name: str) -> str:
    """By what a content names a snapshot of a place.

    >>> make_handle("fast", "snapshot-0f5c0000-0000-4000-8000-000000000000")
    'fast/snapshot-0f5c0000-0000-4000-8000-000000000000'
    """
    return f"{place}/{name}"


def handle_of(content: VolumeSnapshotContent) -> str | None:
    """By what a content names its snapshot; None while there is none."""
    return content.status.snapshot_handle or content.spec.source.snapshot_handle


def split_handle(handle: str) -> tuple[str, str] | None:
    """Place and name of a handle; None for one that is none of ours."""
    place, _, name = handle.partition("/")
    return (place, name) if place and is_snapshot_name(name) else None


def is_bound(snapshot: VolumeSnapshot, content: VolumeSnapshotContent) -> bool:
    """Whether a content is that of this snapshot and no other's, by what the content says."""
    ref, meta = content.spec.volume_snapshot_ref, snapshot.metadata
    return (ref.namespace, ref.name, ref.uid) == (meta.namespace, meta.name, meta.uid)
