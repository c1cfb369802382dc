"""What a worker Pod is told that carries disks into a repository of backups or back, and what it leaves.

Rendered by the controller into the worker's environment, read by the worker; both roles meet here alone. Sizes are
bytes. The repository's password is never part of it: it is a file in the Pod. Touches nothing.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.types.protection.backup_tasks import CatalogEntry, KeepRules

# The environment variable with the job, as JSON; the kernel takes no longer ones than 128 KiB.
BACKUP_VARIABLE: Final = "KVEDGE_BACKUP_JOB"
LONGEST_JOB: Final = 120 << 10
# Where things are in the Pod: a directory or a device for each volume, the repository of a claim, its Secret's keys.
VOLUMES_DIRECTORY: Final = "/volumes"
VOLUME_DEVICES: Final = "/dev/kvedge-volumes"
REPOSITORY_DIRECTORY: Final = "/repository"
BACKUP_SECRET_DIRECTORY: Final = "/var/run/kvedge/backup"
# The container of a worker's Pod that does the work.
BACKUP_CONTAINER: Final = "backup"
# Keys of a repository's Secret.
PASSWORD_KEY: Final = "password"
# The largest document that a worker hands to the controller by `GET /result/TOKEN`.
LARGEST_RESULT: Final = 1 << 20


class BackupVolume(KubeStruct, kw_only=True):
    """One disk: `place` is the last part of its path in the Pod; `size` is the guest's."""

    name: str
    place: str
    block: bool = False
    size: int = 0
    uid: str = ""


class PruneTarget(KubeStruct, kw_only=True):
    """One VM whose old backups may go, exactly that one by its UID; those of `protected` stay, whatever rules say."""

    vm: str
    uid: str
    protected: list[str] = []


class BackupJob(KubeStruct, kw_only=True):
    """One errand: `backup` writes the volumes and `content`, `read` hands out the content of a backup, `restore` fills
    the volumes from it, `serve` has a guest use them meanwhile; `prune` lets old backups of `targets` go, or exactly
    `backup_ids`, `verify` reads one part of so many back, or all where there is one part, `list` hands out what there
    is.

    `repository` is restic's name of the place; `is_known` says that backups have gone there before, and none is made in
    its stead. Whoever names `token` gets what was read. An empty `backup_id` means the latest one of the VM.
    """

    mode: Literal["backup", "read", "restore", "serve", "prune", "verify", "list"]
    repository: str
    is_known: bool = False
    backup_id: str = ""
    namespace: str = ""
    vm: str = ""
    vm_uid: str = ""
    time: str = ""
    volumes: list[BackupVolume] = []
    content: JsonObject | None = None
    token: str = ""
    targets: list[PruneTarget] = []
    keep: KeepRules = field(default_factory=KeepRules)
    backup_ids: list[str] = []
    dry_run: bool = False
    part: int = 0
    parts: int = 0


class BackupOutcome(KubeStruct, kw_only=True):
    """What the worker leaves as its container's termination message, as JSON; `fatal`: another try cannot help,
    `locked`: somebody else works in the repository, `damaged`: what was read back is not what was kept.
    """

    message: str = ""
    fatal: bool = False
    locked: bool = False
    damaged: bool = False
    size: int = 0
    added: int = 0
    removed: int = 0
    kept: int = 0
    removed_ids: list[str] = []


class LiveState(KubeStruct, kw_only=True):
    """How a worker is that serves disks: `ready` for a guest; all of it is there when it is `complete`, and `message`
    is why nothing comes now.
    """

    ready: bool = False
    complete: bool = False
    message: str = ""


class BackupCatalog(KubeStruct, kw_only=True):
    """What a repository has, the newest first; `left_out` are more than fit."""

    backups: list[CatalogEntry] = []
    left_out: int = 0


class BackupRecord(KubeStruct, kw_only=True):
    """What lies in the repository beside the disks, written last: without it a backup is not complete.

    `content` is the spec of a VirtualMachineSnapshotContent: the VM and its claims as they were.
    """

    format: int = 1
    id: str = ""
    namespace: str = ""
    vm: str = ""
    time: str = ""
    volumes: list[BackupVolume] = []
    content: JsonObject = {}
