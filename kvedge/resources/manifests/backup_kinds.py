"""The kinds of backups: what kubectl shows of them, and what `kubectl explain` says of their fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kvedge.resources.manifests.custom_kind import CustomKind, column, condition_column
from kvedge.resources.types.protection.backup_schedules import (
    BackupSchedule,
    BackupScheduleSpec,
    BackupScheduleStatus,
)
from kvedge.resources.types.protection.backup_tasks import BackupTask, BackupTaskSpec, BackupTaskStatus
from kvedge.resources.types.protection.backup_tests import BackupTest, BackupTestSpec, BackupTestStatus
from kvedge.resources.types.protection.backups import (
    BackupRepository,
    BackupRepositorySpec,
    BackupRepositoryStatus,
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
        BackupRepositoryStatus,
        short_names=("backuprepo", "backuprepos"),
        required_spec=("secretName",),
        columns=(
            column("URL", ".spec.url"),
            column("Claim", ".spec.claimName"),
            condition_column("Verified", "Verified"),
            column("LastVerified", ".status.lastVerifiedTime", type_="date"),
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
    _kind(
        BackupTask,
        "One errand in a repository: old backups go, a part is read back, or a list is made.",
        BackupTaskSpec,
        BackupTaskStatus,
        short_names=("backuptask",),
        required_spec=("action", "repositoryName"),
        columns=(
            column("Action", ".spec.action"),
            column("Repository", ".spec.repositoryName"),
            column("Phase", ".status.phase"),
            column("Completed", ".status.completionTime", type_="date"),
            column("Message", ".status.message"),
        ),
    ),
    _kind(
        BackupTest,
        "One try to boot a backup, beside everything else.",
        BackupTestSpec,
        BackupTestStatus,
        short_names=("backuptest",),
        required_spec=("vmName", "repositoryName"),
        columns=(
            column("VM", ".spec.vmName"),
            column("Repository", ".spec.repositoryName"),
            column("Phase", ".status.phase"),
            column("Completed", ".status.completionTime", type_="date"),
            column("Message", ".status.message"),
        ),
    ),
    _kind(
        BackupSchedule,
        "Backups of VMs that are made again and again, and old ones that go.",
        BackupScheduleSpec,
        BackupScheduleStatus,
        short_names=("backupschedule",),
        required_spec=("repositoryName",),
        columns=(
            column("Repository", ".spec.repositoryName"),
            column("Every", ".spec.every"),
            column("Cron", ".spec.cron"),
            condition_column("Ready", "Ready"),
            column("LastSuccess", ".status.lastSuccessTime", type_="date"),
            column("Next", ".status.nextScheduleTime"),
            column("Active", ".status.active", type_="integer"),
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
    "BackupRepositoryStatus": {
        "nextPart": "The part that the next verification reads; one that was found damaged is read again.",
        "parts": "Of so many parts.",
        "lastVerifiedTime": "When something was read back last, and was whole.",
        "lastFullTime": "When the last part of a whole turn was read, or all at once.",
        "conditions": "Verified: whether what was read back last was whole.",
    },
    "KeepRules": {
        "last": "So many of the newest stay.",
        "hourly": "The newest of each of so many hours stays.",
        "daily": "The newest of each of so many days stays.",
        "weekly": "The newest of each of so many weeks stays.",
        "monthly": "The newest of each of so many months stays.",
    },
    "BackupTaskSpec": {
        "action": "Prune, Verify or List.",
        "repositoryName": _REPOSITORY,
        "vmNames": "Prune: the VMs whose old backups go; a VM that was deleted and made anew is another one.",
        "keep": "Prune: what stays. The newest complete backup of a VM and what is in use always do.",
        "backupIDs": "Prune: exactly these go, instead of rules.",
        "dryRun": "Prune: tell what would go.",
        "parts": "Verify: all is read in so many turns, of which this is the next; 10 unless given.",
        "full": "Verify: read all at once.",
        "deadline": "After so long it fails; 24h unless given.",
    },
    "CatalogEntry": {
        "namespace": "The namespace of the VM.",
        "vm": "The VM.",
        "vmUID": "Its UID, which tells it apart from others of its name.",
        "id": "By which the backup is restored.",
        "time": "When it was complete.",
        "size": "Bytes of its disks.",
        "complete": "Whether it can be restored.",
    },
    "BackupTaskStatus": {
        **{name: text for name, text in _STATE.items() if name not in ("backupID", "progress")},
        "phase": "Pending, Running, then Succeeded or Failed.",
        "part": "Verify: the part that was read.",
        "parts": "Verify: of so many.",
        "removed": "Prune: how many have gone.",
        "kept": "Prune: how many complete ones stay.",
        "removedIDs": "Prune: the first of those that have gone.",
        "backups": "List: what is in the repository, the newest first.",
        "leftOut": "List: how many older ones there are besides.",
    },
    "BackupTestSpec": {
        "repositoryName": _REPOSITORY,
        "vmName": "The VM that was backed up.",
        "vmNamespace": "The namespace that it was in, where that is another one.",
        "backupID": "Which backup; the latest one of the VM unless given.",
        "storageClassName": "The class of the disks that are made for it; that of the old ones unless given.",
        "seconds": "After so long a guest that runs, and whose agent does not answer, has passed; 180 unless given.",
        "requireAgent": "It has not: the agent must answer.",
        "deadline": "After so long it fails; 4h unless given.",
    },
    "BackupTestStatus": {
        **{name: text for name, text in _STATE.items() if name not in ("progress", "attempts", "attemptTime")},
        "phase": "Pending, Restoring, Booting, then Succeeded or Failed.",
        "restoreName": "The restore, and the VM, that are made for it.",
        "agentConnected": "Whether the guest's agent has answered.",
    },
    "BackupScheduleSpec": {
        "vmNames": "VMs, in the same namespace.",
        "selector": "VMs with these labels, besides those named; an empty one means all of the namespace.",
        "repositoryName": _REPOSITORY,
        "every": "How often, such as 24h or 6h: the first one at once. After the box was off one is made, not all that "
        "were missed.",
        "cron": "When, in five fields and UTC, instead of every.",
        "keep": "What stays; without it nothing goes.",
        "suspend": "Make none, and let none go, for now.",
        "deadline": "Of each backup.",
        "successfulRunsHistoryLimit": "How many complete BackupRuns of a VM stay as objects; 3 unless given.",
        "failedRunsHistoryLimit": "How many failed ones do; 3 unless given.",
        "verifyEvery": "How often a part of the repository is read back, such as 24h; never unless given.",
        "verifyParts": "All is read in so many turns; 10 unless given.",
        "testEvery": "How often the latest backup of one VM is booted, each in its turn; never unless given.",
    },
    "ScheduledVm": {
        "name": "The VM.",
        "lastSuccessTime": "When its last backup was complete.",
        "lastBackupID": "Its last complete backup.",
        "lastFailureTime": "When its last failed one ended.",
        "message": "Why the latest one failed; empty when it did not.",
        "sequence": "The round of the latest one that has ended.",
    },
    "BackupScheduleStatus": {
        "lastSequence": "The number of the last round: it is in the names and labels of its backups.",
        "lastScheduleTime": "When the last round was due.",
        "nextScheduleTime": "When the next one is due.",
        "lastSuccessTime": "When the last backup was complete.",
        "lastFailureTime": "When the last failed one ended.",
        "lastFailure": "Which VM's it was, and why.",
        "active": "Backups that are under way.",
        "prunedSequence": "The last round after which old backups were looked through.",
        "lastPruneTime": "When that ended.",
        "pruneMessage": "Why it failed; empty when it did not.",
        "lastVerifyTime": "When the last verification ended.",
        "nextVerifyTime": "When the next one is due.",
        "verifyMessage": "Why the last one failed; empty when it did not.",
        "nextTestTime": "When the next backup is booted.",
        "lastTestedVM": "The VM whose backup was booted last.",
        "testMessage": "Which VM's latest backup did not boot, and why.",
        "vms": "What became of each VM's backups.",
        "conditions": "Ready: whether the latest backup of each VM succeeded, none is late, and what is kept is whole.",
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
        "live": "The VM starts at once, and its disks are copied behind: ReadWriteOnce, with a file system.",
        "isolated": "The VM only tries the backup: it boots without networks, and goes with the restore.",
        "storageClassName": "The class of its disks; that of the old ones unless given.",
        "volumes": "Disks that come back alone, and no VM; all of the VM's unless given.",
    },
    "ReturningVolume": {
        "volumeName": "The VM's volume.",
        "claimName": "The name of its claim, which is not there yet; made up unless given.",
    },
    "RestoredVolume": {
        "volumeName": "The volume.",
        "claimName": "Its new claim.",
        "size": "Bytes of its disk.",
    },
    "BackupRestoreStatus": {
        **_STATE,
        "phase": "Pending, Reading, Restoring, Running while a live VM needs it, then Succeeded or Failed.",
        "volumes": "The new disks.",
        "content": "What the backup says of the VM, while it is needed.",
    },
}
