"""Snapshots of virtual machines, what they hold, and how one is put back (snapshot.kubevirt.io/v1beta1).

Touches nothing. Names on the wire are KubeVirt's.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta

SNAPSHOT_GROUP: Final = "snapshot.kubevirt.io"
SNAPSHOT_VERSION: Final = "v1beta1"

SnapshotPhase = Literal["", "InProgress", "Succeeded", "Failed", "Deleting", "Unknown"]
DeletionPolicy = Literal["Delete", "Retain"]


class TypedReference(KubeStruct, kw_only=True):
    """An object of the same namespace."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""


class SnapshotError(KubeStruct, kw_only=True):
    """What went wrong last, and when."""

    time: str | None = None
    message: str | None = None


class SourceIndication(KubeStruct, kw_only=True):
    """How the snapshot was taken."""

    indication: str
    message: str = ""


class SnapshotVolumes(KubeStruct, kw_only=True):
    """The VM's volumes, by whether their data is in the snapshot."""

    included_volumes: list[str] = []
    excluded_volumes: list[str] = []


class VirtualMachineSnapshotSpec(KubeStruct, kw_only=True):
    """Of which VM a snapshot is taken, and how; it cannot be changed."""

    source: TypedReference = field(default_factory=TypedReference)
    deletion_policy: DeletionPolicy | None = None
    failure_deadline: str | None = None


class VirtualMachineSnapshotStatus(KubeStruct, kw_only=True):
    """How far it is; `readyToUse` says that it can be restored."""

    phase: SnapshotPhase = ""
    ready_to_use: bool | None = None
    creation_time: str | None = None
    source_uid: str | None = field(default=None, name="sourceUID")
    virtual_machine_snapshot_content_name: str | None = None
    error: SnapshotError | None = None
    conditions: list[Condition] = []
    indications: list[str] = []
    source_indications: list[SourceIndication] = []
    snapshot_volumes: SnapshotVolumes | None = None


class VirtualMachineSnapshot(KubeStruct, kw_only=True):
    """snapshot.kubevirt.io/v1beta1 VirtualMachineSnapshot: a VM as it was at one time."""

    KIND: ClassVar[Kind] = Kind(SNAPSHOT_GROUP, SNAPSHOT_VERSION, "VirtualMachineSnapshot", "virtualmachinesnapshots")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineSnapshotSpec = field(default_factory=VirtualMachineSnapshotSpec)
    status: VirtualMachineSnapshotStatus = field(default_factory=VirtualMachineSnapshotStatus)

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status.phase in ("Succeeded", "Failed")


class SnapshotSource(KubeStruct, kw_only=True):
    """The VM as a document: metadata and spec as they were."""

    virtual_machine: JsonObject | None = None


class BackedUpClaim(KubeStruct, kw_only=True):
    """The claim of a volume as it was: metadata and spec."""

    metadata: JsonObject = {}
    spec: JsonObject = {}


class VolumeBackup(KubeStruct, kw_only=True):
    """One volume: its claim, and what holds a copy of it."""

    volume_name: str
    persistent_volume_claim: BackedUpClaim = field(default_factory=BackedUpClaim)
    volume_snapshot_name: str | None = None


class VirtualMachineSnapshotContentSpec(KubeStruct, kw_only=True):
    """What a snapshot holds."""

    virtual_machine_snapshot_name: str | None = None
    source: SnapshotSource = field(default_factory=SnapshotSource)
    volume_backups: list[VolumeBackup] = []


class VolumeSnapshotStatus(KubeStruct, kw_only=True):
    """How far the copy of one volume is."""

    volume_snapshot_name: str
    creation_time: str | None = None
    ready_to_use: bool | None = None
    error: SnapshotError | None = None


class VirtualMachineSnapshotContentStatus(KubeStruct, kw_only=True):
    """How far the copies are."""

    creation_time: str | None = None
    ready_to_use: bool | None = None
    error: SnapshotError | None = None
    volume_snapshot_status: list[VolumeSnapshotStatus] = []


class VirtualMachineSnapshotContent(KubeStruct, kw_only=True):
    """snapshot.kubevirt.io/v1beta1 VirtualMachineSnapshotContent: what a snapshot holds; made by the controller."""

    KIND: ClassVar[Kind] = Kind(
        SNAPSHOT_GROUP, SNAPSHOT_VERSION, "VirtualMachineSnapshotContent", "virtualmachinesnapshotcontents"
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineSnapshotContentSpec = field(default_factory=VirtualMachineSnapshotContentSpec)
    status: VirtualMachineSnapshotContentStatus = field(default_factory=VirtualMachineSnapshotContentStatus)


class VolumeRestoreOverride(KubeStruct, kw_only=True):
    """What one restored volume is called, and what is written on it."""

    volume_name: str = ""
    restore_name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class VirtualMachineRestoreSpec(KubeStruct, kw_only=True):
    """Which snapshot goes into which VM, and how; it cannot be changed."""

    target: TypedReference = field(default_factory=TypedReference)
    virtual_machine_snapshot_name: str = ""
    target_readiness_policy: str | None = None
    volume_restore_policy: str | None = None
    volume_ownership_policy: str | None = None
    volume_restore_overrides: list[VolumeRestoreOverride] = []
    patches: list[str] = []


class VolumeRestore(KubeStruct, kw_only=True):
    """One restored volume: its new claim, and from what it is filled."""

    volume_name: str
    persistent_volume_claim: str = field(default="", name="persistentVolumeClaim")
    volume_snapshot_name: str = ""
    data_volume_name: str | None = None


class VirtualMachineRestoreStatus(KubeStruct, kw_only=True):
    """How far it is."""

    complete: bool | None = None
    restore_time: str | None = None
    restores: list[VolumeRestore] = []
    deleted_data_volumes: list[str] = []
    # kvedge's own, of a restore in place: the claims whose volumes it exchanges, as they were before.
    in_place_record: str = ""
    conditions: list[Condition] = []


class VirtualMachineRestore(KubeStruct, kw_only=True):
    """snapshot.kubevirt.io/v1beta1 VirtualMachineRestore: a snapshot that is put back, once."""

    KIND: ClassVar[Kind] = Kind(SNAPSHOT_GROUP, SNAPSHOT_VERSION, "VirtualMachineRestore", "virtualmachinerestores")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineRestoreSpec = field(default_factory=VirtualMachineRestoreSpec)
    status: VirtualMachineRestoreStatus = field(default_factory=VirtualMachineRestoreStatus)

    @property
    def has_failed(self) -> bool:
        """Whether nothing more comes of it, although it is not complete."""
        return any(item.type == "Failure" and item.status == "True" for item in self.status.conditions)

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return bool(self.status.complete) or self.has_failed
