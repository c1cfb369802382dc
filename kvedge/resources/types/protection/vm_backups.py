"""Backups of running VMs by changed blocks, and what is known of the last one (backup.kubevirt.io/v1alpha1).

Touches nothing. Names on the wire are KubeVirt's. kvedge's own backups, into a repository, are in backups.py.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.types.protection.snapshots import TypedReference

VM_BACKUP_GROUP: Final = "backup.kubevirt.io"
VM_BACKUP_VERSION: Final = "v1alpha1"

BackupMode = Literal["Push", "Pull"]
BackupType = Literal["", "Full", "Incremental"]


class VirtualMachineBackupSpec(KubeStruct, kw_only=True):
    """What is backed up and where to; it cannot be changed."""

    source: TypedReference = field(default_factory=TypedReference)
    mode: BackupMode | None = None
    pvc_name: str | None = None
    skip_quiesce: bool = False
    force_full_backup: bool = False
    token_secret_ref: str | None = None
    ttl_duration: str | None = None

    @property
    def is_pull(self) -> bool:
        """Whether somebody comes for it."""
        return self.mode == "Pull"


class BackupVolume(KubeStruct, kw_only=True):
    """A volume that is in the backup, and where its bytes and their map are to be had."""

    volume_name: str
    disk_target: str = ""
    data_endpoint: str = ""
    map_endpoint: str = ""


class VirtualMachineBackupStatus(KubeStruct, kw_only=True):
    """How far it is."""

    type: BackupType = ""
    checkpoint_name: str | None = None
    conditions: list[Condition] = []
    included_volumes: list[BackupVolume] = []
    endpoint_cert: str | None = None
    export_uid: str | None = field(default=None, name="exportUID")


class VirtualMachineBackup(KubeStruct, kw_only=True):
    """backup.kubevirt.io/v1alpha1 VirtualMachineBackup: the disks of a running VM as they all are at one moment."""

    KIND: ClassVar[Kind] = Kind(VM_BACKUP_GROUP, VM_BACKUP_VERSION, "VirtualMachineBackup", "virtualmachinebackups")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineBackupSpec = field(default_factory=VirtualMachineBackupSpec)
    status: VirtualMachineBackupStatus = field(default_factory=VirtualMachineBackupStatus)

    def is_true(self, type_: str) -> bool:
        """Whether a condition holds."""
        found = condition(self.status.conditions, type_)
        return found is not None and found.status == "True"

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.is_true("Complete") or self.is_true("Failed")

    @property
    def by_tracker(self) -> bool:
        """Whether it is taken for a tracker, and not of a VM alone."""
        return self.spec.source.kind == VirtualMachineBackupTracker.KIND.kind


class CheckpointVolume(KubeStruct, kw_only=True):
    """A volume whose changes are noted."""

    volume_name: str
    disk_target: str = ""


class BackupCheckpoint(KubeStruct, kw_only=True):
    """The moment of a backup, since which changes are noted."""

    name: str = ""
    creation_time: str | None = None
    volumes: list[CheckpointVolume] = []


class VirtualMachineBackupTrackerSpec(KubeStruct, kw_only=True):
    """Whose backups follow on each other; it cannot be changed."""

    source: TypedReference = field(default_factory=TypedReference)


class VirtualMachineBackupTrackerStatus(KubeStruct, kw_only=True):
    """From where the next backup goes on."""

    latest_checkpoint: BackupCheckpoint | None = None
    checkpoint_redefinition_required: bool = False


class VirtualMachineBackupTracker(KubeStruct, kw_only=True):
    """backup.kubevirt.io/v1alpha1 VirtualMachineBackupTracker: backups of one VM, each with what changed since."""

    KIND: ClassVar[Kind] = Kind(
        VM_BACKUP_GROUP, VM_BACKUP_VERSION, "VirtualMachineBackupTracker", "virtualmachinebackuptrackers"
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineBackupTrackerSpec = field(default_factory=VirtualMachineBackupTrackerSpec)
    status: VirtualMachineBackupTrackerStatus = field(default_factory=VirtualMachineBackupTrackerStatus)

    @property
    def checkpoint(self) -> str:
        """The name of the last checkpoint; empty before the first backup."""
        latest = self.status.latest_checkpoint
        return "" if latest is None else latest.name
