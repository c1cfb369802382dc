"""A storage driver's own snapshots of claims (snapshot.storage.k8s.io/v1), where a cluster has them.

Made and read by the controller for snapshots of VMs; the driver's controller fills the status in. Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.protection.snapshots import SnapshotError
from kvedge.resources.values.quantities import Quantity

VOLUME_SNAPSHOT_GROUP: Final = "snapshot.storage.k8s.io"
_VERSION: Final = "v1"


class SnapshottedClaim(KubeStruct, kw_only=True):
    """The claim of the same namespace of which a snapshot is taken."""

    persistent_volume_claim_name: str | None = None


class VolumeSnapshotSpec(KubeStruct, kw_only=True):
    """Of which claim, and by which class; it cannot be changed."""

    volume_snapshot_class_name: str | None = None
    source: SnapshottedClaim = field(default_factory=SnapshottedClaim)


class DriverSnapshotStatus(KubeStruct, kw_only=True):
    """How far the driver is. With `creationTime` the moment has passed; `readyToUse` may follow much later."""

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


class VolumeSnapshotClass(KubeStruct, kw_only=True):
    """snapshot.storage.k8s.io/v1 VolumeSnapshotClass: how a driver takes snapshots."""

    KIND: ClassVar[Kind] = Kind(
        VOLUME_SNAPSHOT_GROUP, _VERSION, "VolumeSnapshotClass", "volumesnapshotclasses", namespaced=False
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    driver: str = ""
