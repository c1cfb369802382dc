"""Work in a repository of backups besides backups: old ones go, what is kept is read back, a list is made of it
(backup.kvedge.io/v1alpha1 BackupTask).

Touches nothing. The kind is kvedge's own.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.protection.backups import BACKUP_GROUP, BACKUP_VERSION

TaskAction = Literal["Prune", "Verify", "List"]
TaskPhase = Literal["", "Pending", "Running", "Succeeded", "Failed"]
_FINAL: Final = ("Succeeded", "Failed")
# All of a repository is read within so many verifications where nobody says.
DEFAULT_PARTS: Final = 10
# restic tells parts apart by one byte.
MOST_PARTS: Final = 256


class KeepRules(KubeStruct, kw_only=True):
    """How many complete backups of a VM stay, as `restic forget` counts them; one that a rule names stays."""

    last: int | None = None
    hourly: int | None = None
    daily: int | None = None
    weekly: int | None = None
    monthly: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nobody said what may go: then nothing does."""
        return not any((self.last, self.hourly, self.daily, self.weekly, self.monthly))


class CatalogEntry(KubeStruct, kw_only=True):
    """One backup in a repository, as the repository itself has it; `size` is that of its disks in bytes."""

    namespace: str = ""
    vm: str = ""
    vm_uid: str = field(default="", name="vmUID")
    id: str = ""
    time: str = ""
    size: int | None = None
    complete: bool = False


class BackupTaskSpec(KubeStruct, kw_only=True):
    """What is done in which repository; it cannot be changed."""

    action: str = ""
    repository_name: str = ""
    # Prune: of these VMs; by these rules, or exactly these backups.
    vm_names: list[str] = []
    keep: KeepRules | None = None
    backup_ids: list[str] = field(default_factory=list, name="backupIDs")
    dry_run: bool | None = None
    # Verify: one of so many parts, the next in turn; or all at once.
    parts: int | None = None
    full: bool | None = None
    deadline: str | None = None


class BackupTaskStatus(KubeStruct, kw_only=True):
    """How far it is, and what came of it; lists are cut, numbers are not."""

    phase: TaskPhase = ""
    message: str = ""
    start_time: str | None = None
    completion_time: str | None = None
    # Verify: which part of how many was read.
    part: int | None = None
    parts: int | None = None
    # Prune.
    removed: int | None = None
    kept: int | None = None
    removed_ids: list[str] = field(default_factory=list, name="removedIDs")
    # List: the newest first, and how many more there are.
    backups: list[CatalogEntry] = []
    left_out: int | None = None
    # Workers that were made, and when the last one failed.
    attempts: int = 0
    attempt_time: str | None = None


class BackupTask(KubeStruct, kw_only=True):
    """backup.kvedge.io/v1alpha1 BackupTask: one errand in a repository."""

    KIND: ClassVar[Kind] = Kind(BACKUP_GROUP, BACKUP_VERSION, "BackupTask", "backuptasks")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BackupTaskSpec = field(default_factory=BackupTaskSpec)
    status: BackupTaskStatus = field(default_factory=BackupTaskStatus)

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status.phase in _FINAL

    @property
    def is_exclusive(self) -> bool:
        """Whether nothing else may work in the repository meanwhile."""
        return self.spec.action != "List"
