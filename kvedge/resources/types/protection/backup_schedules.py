"""Backups that are made again and again, and old ones that go (backup.kvedge.io/v1alpha1 BackupSchedule).

Touches nothing. The kind is kvedge's own.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, LabelSelector, ObjectMeta
from kvedge.resources.types.protection.backup_tasks import KeepRules
from kvedge.resources.types.protection.backups import BACKUP_GROUP, BACKUP_VERSION

# Labels of what a schedule has made: its name and UID, the number of the round.
SCHEDULE: Final = "backup.kvedge.io/schedule"
SCHEDULE_UID: Final = "backup.kvedge.io/schedule-uid"
SEQUENCE: Final = "backup.kvedge.io/sequence"
# How many ended runs of a VM stay as objects where nobody says.
DEFAULT_HISTORY: Final = 3
# A schedule's VMs at one time: each gets a snapshot and a worker in every round.
MOST_VMS: Final = 200


class BackupScheduleSpec(KubeStruct, kw_only=True):
    """Which VMs go where and when, and what stays there.

    One of `every` and `cron` says when; VMs are those named and those selected.
    """

    vm_names: list[str] = []
    selector: LabelSelector | None = None
    repository_name: str = ""
    every: str = ""
    # Five fields, in UTC.
    cron: str = ""
    keep: KeepRules | None = None
    suspend: bool | None = None
    # Of each run.
    deadline: str | None = None
    successful_runs_history_limit: int | None = None
    failed_runs_history_limit: int | None = None
    # How often a part of the repository is read back, and of how many parts.
    verify_every: str = ""
    verify_parts: int | None = None
    # How often the latest backup of one VM is booted, each in its turn.
    test_every: str = ""


class ScheduledVm(KubeStruct, kw_only=True):
    """What became of one VM's backups."""

    name: str
    last_success_time: str | None = None
    last_backup_id: str = field(default="", name="lastBackupID")
    last_failure_time: str | None = None
    # Why the latest one failed; empty when it did not.
    message: str = ""
    # The round of the latest one that has ended.
    sequence: int = 0


class BackupScheduleStatus(KubeStruct, kw_only=True):
    """What became of it. Numbers order its rounds: a clock may jump."""

    last_sequence: int | None = None
    last_schedule_time: str | None = None
    next_schedule_time: str | None = None
    last_success_time: str | None = None
    last_failure_time: str | None = None
    last_failure: str = ""
    # Runs that are under way.
    active: int = 0
    # The last round whose old backups were looked through, and what came of the last task.
    pruned_sequence: int | None = None
    last_prune_time: str | None = None
    prune_message: str = ""
    last_verify_time: str | None = None
    next_verify_time: str | None = None
    verify_message: str = ""
    next_test_time: str | None = None
    last_tested_vm: str = field(default="", name="lastTestedVM")
    test_message: str = ""
    vms: list[ScheduledVm] = []
    conditions: list[Condition] = []


class BackupSchedule(KubeStruct, kw_only=True):
    """backup.kvedge.io/v1alpha1 BackupSchedule: backups of VMs again and again."""

    KIND: ClassVar[Kind] = Kind(BACKUP_GROUP, BACKUP_VERSION, "BackupSchedule", "backupschedules")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BackupScheduleSpec = field(default_factory=BackupScheduleSpec)
    status: BackupScheduleStatus = field(default_factory=BackupScheduleStatus)
