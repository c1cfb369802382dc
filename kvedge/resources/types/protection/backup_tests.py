"""A backup that is tried: a VM of it boots by itself, and goes again (backup.kvedge.io/v1alpha1 BackupTest).

Touches nothing. The kind is kvedge's own.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.protection.backups import BACKUP_GROUP, BACKUP_VERSION

TestPhase = Literal["", "Pending", "Restoring", "Booting", "Succeeded", "Failed"]
_FINAL: Final = ("Succeeded", "Failed")
# So long a guest without an agent has to run where nobody says.
DEFAULT_SECONDS: Final = 180


class BackupTestSpec(KubeStruct, kw_only=True):
    """Which backup is tried; it cannot be changed. An empty `backup_id` means the latest one of `vm_name`."""

    repository_name: str = ""
    vm_name: str = ""
    vm_namespace: str = ""
    backup_id: str = field(default="", name="backupID")
    storage_class_name: str | None = None
    # After so many seconds a guest that runs, and whose agent does not answer, has passed, unless one is required.
    seconds: int | None = None
    require_agent: bool | None = None
    deadline: str | None = None


class BackupTestStatus(KubeStruct, kw_only=True):
    """How far it is, and what came of it."""

    phase: TestPhase = ""
    message: str = ""
    start_time: str | None = None
    completion_time: str | None = None
    backup_id: str = field(default="", name="backupID")
    restore_name: str = ""
    agent_connected: bool | None = None


class BackupTest(KubeStruct, kw_only=True):
    """backup.kvedge.io/v1alpha1 BackupTest: one try to boot a backup."""

    KIND: ClassVar[Kind] = Kind(BACKUP_GROUP, BACKUP_VERSION, "BackupTest", "backuptests")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BackupTestSpec = field(default_factory=BackupTestSpec)
    status: BackupTestStatus = field(default_factory=BackupTestStatus)

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status.phase in _FINAL
