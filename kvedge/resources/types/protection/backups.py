"""Backups of virtual machines in a repository outside the cluster, and how one comes back (backup.kvedge.io/v1alpha1).

Touches nothing. The kinds are kvedge's own: KubeVirt has no backup jobs, and no way back from a backup.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta

BACKUP_GROUP: Final = "backup.kvedge.io"
BACKUP_VERSION: Final = "v1alpha1"

RunPhase = Literal["", "Pending", "Snapshotting", "Copying", "Succeeded", "Failed"]
RestorePhase = Literal["", "Pending", "Reading", "Restoring", "Running", "Succeeded", "Failed"]
_FINAL: Final = ("Succeeded", "Failed")


class BackupRepositorySpec(KubeStruct, kw_only=True):
    """Where backups are kept: a store by its URL, or a directory in a claim; and the Secret that opens it."""

    url: str = ""
    claim_name: str = ""
    secret_name: str = ""


class BackupRepositoryStatus(KubeStruct, kw_only=True):
    """What verifications have found. A part that was found damaged is read again until it is whole."""

    # The part that the next verification reads, of so many.
    next_part: int | None = None
    parts: int | None = None
    last_verified_time: str | None = None
    # When the last part of a whole turn, or all at once, was read.
    last_full_time: str | None = None
    conditions: list[Condition] = []


class BackupRepository(KubeStruct, kw_only=True):
    """backup.kvedge.io/v1alpha1 BackupRepository: a place for backups, encrypted with a key that its owner holds."""

    KIND: ClassVar[Kind] = Kind(BACKUP_GROUP, BACKUP_VERSION, "BackupRepository", "backuprepositories")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BackupRepositorySpec = field(default_factory=BackupRepositorySpec)
    status: BackupRepositoryStatus = field(default_factory=BackupRepositoryStatus)


class BackupRunSpec(KubeStruct, kw_only=True):
    """Which VM goes where; it cannot be changed."""

    vm_name: str = ""
    repository_name: str = ""
    # A snapshot that is there; without it one is taken, and deleted at the end.
    snapshot_name: str = ""
    deadline: str | None = None


class BackupRunStatus(KubeStruct, kw_only=True):
    """How far it is. Sizes are bytes: `size` is that of the disks, `added` what the repository has grown by."""

    phase: RunPhase = ""
    message: str = ""
    start_time: str | None = None
    completion_time: str | None = None
    snapshot_name: str = ""
    backup_id: str = field(default="", name="backupID")
    progress: str = ""
    size: int | None = None
    added: int | None = None
    volumes: list[str] = []
    # Workers that were made, and when the last one failed.
    attempts: int = 0
    attempt_time: str | None = None


class BackupRun(KubeStruct, kw_only=True):
    """backup.kvedge.io/v1alpha1 BackupRun: one backup of one VM."""

    KIND: ClassVar[Kind] = Kind(BACKUP_GROUP, BACKUP_VERSION, "BackupRun", "backupruns")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BackupRunSpec = field(default_factory=BackupRunSpec)
    status: BackupRunStatus = field(default_factory=BackupRunStatus)

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status.phase in _FINAL


class ReturningVolume(KubeStruct, kw_only=True):
    """One disk that comes back alone, by the name of the VM's volume; without `claim_name` the claim gets one."""

    volume_name: str
    claim_name: str = ""


class BackupRestoreSpec(KubeStruct, kw_only=True):
    """Which backup becomes which VM, or which of its disks become claims; it cannot be changed.

    `backup_id` is that of a run, or empty for the latest backup of `vm_name`. With `volumes` no VM is made.
    """

    repository_name: str = ""
    backup_id: str = field(default="", name="backupID")
    vm_name: str = ""
    # The namespace that the VM was in when it was backed up, where it is another one.
    vm_namespace: str = ""
    target_name: str = ""
    storage_class_name: str | None = None
    volumes: list[ReturningVolume] = []
    # The VM boots at once, reaches nobody, and goes with the restore: it only tries whether the backup is one.
    isolated: bool | None = None
    # The VM starts at once, and reads from the backup what of its disks is not there yet.
    live: bool | None = None


class RestoredVolume(KubeStruct, kw_only=True):
    """One disk: its volume, its new claim, and its size in bytes."""

    volume_name: str
    claim_name: str
    size: int = 0


class BackupRestoreStatus(KubeStruct, kw_only=True):
    """How far it is; `content` is what the backup says of the VM and its claims."""

    phase: RestorePhase = ""
    message: str = ""
    start_time: str | None = None
    completion_time: str | None = None
    backup_id: str = field(default="", name="backupID")
    progress: str = ""
    volumes: list[RestoredVolume] = []
    content: JsonObject | None = None
    # Workers that were made, and when the last one failed.
    attempts: int = 0
    attempt_time: str | None = None


class BackupRestore(KubeStruct, kw_only=True):
    """backup.kvedge.io/v1alpha1 BackupRestore: a backup that becomes a VM again, once."""

    KIND: ClassVar[Kind] = Kind(BACKUP_GROUP, BACKUP_VERSION, "BackupRestore", "backuprestores")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BackupRestoreSpec = field(default_factory=BackupRestoreSpec)
    status: BackupRestoreStatus = field(default_factory=BackupRestoreStatus)

    @property
    def target(self) -> str:
        """The name of the VM that it makes; empty where disks come back alone."""
        return "" if self.spec.volumes else self.spec.target_name or self.spec.vm_name

    @property
    def runs(self) -> bool:
        """Whether its VM runs from its backup."""
        return self.status.phase == "Running"

    @property
    def reads(self) -> bool:
        """Whether its worker is to read in the repository now."""
        if self.runs:
            return self.status.progress != "100.00%"
        return self.status.phase in ("Reading", "Restoring")

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status.phase in _FINAL
