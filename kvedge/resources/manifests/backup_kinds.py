"""The kinds of backups: what kubectl shows of them, and what `kubectl explain` says of their fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kvedge.resources.manifests.custom_kind import CustomKind, column
from kvedge.resources.types.protection.backups import (
    BackupRepository,
    BackupRepositorySpec,
    BackupRestore,
    BackupRestoreSpec,
    BackupRestoreStatus,
    BackupRun,
    BackupRunSpec,
    BackupRunStatus,
)


def _kind(cls: Any, description: str, spec: type, status: type | None, **more: Any) -> CustomKind:
    return CustomKind(
        kind=cls.KIND,
        description=description,
        spec=spec,
        status=status,
        has_status_subresource=status is not None,
        deprecated_versions=(),
        **more,
    )


BACKUP_KINDS: Final[Sequence[CustomKind]] = (
    _kind(
        BackupRepository,
        "A place for backups of VMs, encrypted with a key that its owner holds.",
        BackupRepositorySpec,
        None,
        short_names=("backuprepo", "backuprepos"),
        required_spec=("secretName",),
        columns=(
            column("URL", ".spec.url"),
            column("Claim", ".spec.claimName"),
            column("Age", ".metadata.creationTimestamp", type_="date"),
        ),
    ),
    _kind(
        BackupRun,
        "One backup of one VM into a repository.",
        BackupRunSpec,
        BackupRunStatus,
        short_names=("backup", "backups"),
        required_spec=("vmName", "repositoryName"),
        columns=(
            column("VM", ".spec.vmName"),
            column("Repository", ".spec.repositoryName"),
            column("Phase", ".status.phase"),
            column("Progress", ".status.progress"),
            column("Completed", ".status.completionTime", type_="date"),
            column("Message", ".status.message", priority=1),
        ),
    ),
    _kind(
        BackupRestore,
        "A backup that becomes a VM again, once.",
        BackupRestoreSpec,
        BackupRestoreStatus,
        short_names=("backuprestore",),
        required_spec=("vmName", "repositoryName"),
        columns=(
            column("VM", ".spec.vmName"),
            column("Target", ".spec.targetName"),
            column("Phase", ".status.phase"),
            column("Progress", ".status.progress"),
            column("Completed", ".status.completionTime", type_="date"),
            column("Message", ".status.message", priority=1),
        ),
    ),
)

_STATE: Final = {
    "message": "What it waits for, or why it failed.",
    "startTime": "When it began.",
    "completionTime": "When it ended.",
    "backupID": "By which the backup is known in the repository.",
    "progress": "How much of the disks has been carried.",
    "attempts": "How many workers were made.",
    "attemptTime": "When the last worker failed.",
}
_REPOSITORY: Final = "The BackupRepository, in the same namespace."
BACKUP_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "BackupRepositorySpec": {
        "url": "Where it is: s3:https://host/bucket/path, rest:https://host/path or sftp:user@host:/path.",
        "claimName": "A claim with a file system that holds it, such as one on NFS, SMB or a USB disk.",
        "secretName": "The Secret with the key `password`, which encrypts all that is kept, and as the place needs "
        "them accessKeyId, secretKey, region, restUser, restPassword, sshKey, knownHosts and ca.crt.",
    },
    "BackupRunSpec": {
        "vmName": "The VM, in the same namespace.",
        "repositoryName": _REPOSITORY,
        "snapshotName": "A snapshot of the VM that is carried away; without it one is taken, and deleted at the end.",
        "deadline": "After so long, such as 8h, a backup that is not complete fails; 24h unless given.",
    },
    "BackupRunStatus": {
        **_STATE,
        "phase": "Pending, Snapshotting, Copying, then Succeeded or Failed.",
        "snapshotName": "The snapshot that is carried away.",
        "size": "Bytes of the disks.",
        "added": "Bytes that the repository has grown by.",
        "volumes": "The volumes whose disks are in it.",
    },
    "BackupRestoreSpec": {
        "repositoryName": _REPOSITORY,
        "backupID": "Which backup; the latest one of the VM unless given.",
        "vmName": "The VM that was backed up.",
        "vmNamespace": "The namespace that it was in, where that is another one.",
        "targetName": "The name of the VM that is made; its old one unless given.",
        "storageClassName": "The class of its disks; that of the old ones unless given.",
    },
    "RestoredVolume": {
        "volumeName": "The volume.",
        "claimName": "Its new claim.",
        "size": "Bytes of its disk.",
    },
    "BackupRestoreStatus": {
        **_STATE,
        "phase": "Pending, Reading, Restoring, then Succeeded or Failed.",
        "volumes": "The new disks.",
        "content": "What the backup says of the VM, while it is needed.",
    },
}
