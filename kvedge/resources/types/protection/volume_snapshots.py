"""A storage driver's own snapshots of claims (snapshot.storage.k8s.io/v1).

Made and read by the controller for snapshots of VMs in a cluster, where a driver's controller fills the status in; on
one box the storage service does. Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta, ObjectReference
from kvedge.resources.types.protection.snapshots import SnapshotError
from kvedge.resources.values.quantities import Quantity

VOLUME_SNAPSHOT_GROUP: Final = "snapshot.storage.k8s.io"
_VERSION: Final = "v1"


class SnapshottedClaim(KubeStruct, kw_only=True):
    """The claim of the same namespace of which a snapshot is taken, or the content of one that is there already."""

    persistent_volume_claim_name: str | None = None
    volume_snapshot_content_name: str | None = None


class VolumeSnapshotSpec(KubeStruct, kw_only=True):
    """Of which claim, and by which class; it cannot be changed."""

    volume_snapshot_class_name: str | None = None
    source: SnapshottedClaim = field(default_factory=SnapshottedClaim)


class DriverSnapshotStatus(KubeStruct, kw_only=True):
    """How far the driver is. With `creationTime` the moment has passed; `readyToUse` may follow much later."""

    bound_volume_snapshot_content_name: str | None = None
    creation_time: str | None = None
    ready_to_use: bool | None = None
    restore_size: Quantity | None = None
    error: SnapshotError | None = None


class VolumeSnapshot(KubeStruct, kw_only=True):
    """snapshot.storage.k8s.io/v1 VolumeSnapshot: a claim as it was at one time, kept by its driver."""

    KIND: ClassVar[Kind] = Kind(VOLUME_SNAPSHOT_GROUP, _VERSION, "VolumeSnapshot", "volumesnapshots")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeSnapshotSpec = field(default_factory=VolumeSnapshotSpec)
    status: DriverSnapshotStatus = field(default_factory=DriverSnapshotStatus)


class ContentSource(KubeStruct, kw_only=True):
    """The driver's name of the volume of which a snapshot is taken, or of a snapshot that is there already."""

    volume_handle: str | None = None
    snapshot_handle: str | None = None


class VolumeSnapshotContentSpec(KubeStruct, kw_only=True):
    """Which snapshot it is, of which VolumeSnapshot, and what becomes of the data when that is deleted."""

    volume_snapshot_ref: ObjectReference = field(default_factory=ObjectReference)
    deletion_policy: str = ""
    driver: str = ""
    source: ContentSource = field(default_factory=ContentSource)
    source_volume_mode: str | None = None
    volume_snapshot_class_name: str | None = None


class VolumeSnapshotContentStatus(KubeStruct, kw_only=True):
    """How far the driver is; the time in nanoseconds since 1970, the size in bytes."""

    snapshot_handle: str | None = None
    creation_time: int | None = None
    ready_to_use: bool | None = None
    restore_size: int | None = None
    error: SnapshotError | None = None


class VolumeSnapshotContent(KubeStruct, kw_only=True):
    """snapshot.storage.k8s.io/v1 VolumeSnapshotContent: a snapshot as its driver knows it."""

    KIND: ClassVar[Kind] = Kind(
        VOLUME_SNAPSHOT_GROUP, _VERSION, "VolumeSnapshotContent", "volumesnapshotcontents", namespaced=False
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeSnapshotContentSpec = field(default_factory=VolumeSnapshotContentSpec)
    status: VolumeSnapshotContentStatus = field(default_factory=VolumeSnapshotContentStatus)


class VolumeSnapshotClass(KubeStruct, kw_only=True):
    """snapshot.storage.k8s.io/v1 VolumeSnapshotClass: how a driver takes snapshots."""

    KIND: ClassVar[Kind] = Kind(
        VOLUME_SNAPSHOT_GROUP, _VERSION, "VolumeSnapshotClass", "volumesnapshotclasses", namespaced=False
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    driver: str = ""
    deletion_policy: str = ""
    parameters: dict[str, str] = {}
