"""Snapshots, contents and classes for the tests of this folder, each with only what a test says about it."""

from __future__ import annotations

from typing import Any

from kvedge.resources.codec import decode
from kvedge.resources.types.protection.volume_snapshots import (
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from kvedge.standalone.volumes.snapshot_words import AS_SOURCE, BOUND, CONTENT_BOUND, DEFAULT_CLASS
from kvedge.standalone.volumes.volume_words import PROVISIONER

UID = "bbbbbbbb-0000-0000-0000-000000000002"
CONTENT = f"snapcontent-{UID}"
HANDLE = f"kvedge/snapshot-{UID}"
GOING = "2026-01-01T00:00:00Z"


def snapshot(*, going: bool = False, protected: bool = True, status: Any = None, **spec: Any) -> VolumeSnapshot:
    """A snapshot of the claim `data`, unless `spec` says otherwise."""
    meta: dict[str, Any] = {"name": "first", "namespace": "default", "uid": UID, "resourceVersion": "5"}
    if protected:
        meta["finalizers"] = [AS_SOURCE, BOUND]
    if going:
        meta["deletionTimestamp"] = GOING
    wanted = {"source": {"persistentVolumeClaimName": "data"}, **spec}
    return decode(VolumeSnapshot, {"metadata": meta, "spec": wanted, "status": status or {}})


def content(
    *, going: bool = False, protected: bool = True, status: Any = None, notes: Any = None, **spec: Any
) -> VolumeSnapshotContent:
    """The content of that snapshot, unless `spec` says otherwise."""
    meta: dict[str, Any] = {"name": CONTENT, "uid": "content", "resourceVersion": "7", "annotations": notes or {}}
    if protected:
        meta["finalizers"] = [CONTENT_BOUND]
    if going:
        meta["deletionTimestamp"] = GOING
    wanted = {
        "volumeSnapshotRef": {"namespace": "default", "name": "first", "uid": UID},
        "deletionPolicy": "Delete",
        "driver": PROVISIONER,
        "source": {"volumeHandle": "pv"},
        "sourceVolumeMode": "Filesystem",
        **spec,
    }
    return decode(VolumeSnapshotContent, {"metadata": meta, "spec": wanted, "status": status or {}})


def ready_status() -> dict[str, Any]:
    """The status of a content that has its snapshot."""
    return {
        "snapshotHandle": HANDLE,
        "creationTime": 1_767_225_600_000_000_000,
        "readyToUse": True,
        "restoreSize": 1 << 30,
    }


def snapshot_class(name: str = "kvedge", *, default: bool = True, **fields: Any) -> VolumeSnapshotClass:
    """A class of ours, unless `fields` say otherwise."""
    meta = {"name": name, "annotations": {DEFAULT_CLASS: "true"} if default else {}}
    return decode(VolumeSnapshotClass, {"metadata": meta, "driver": PROVISIONER, "deletionPolicy": "Delete", **fields})
