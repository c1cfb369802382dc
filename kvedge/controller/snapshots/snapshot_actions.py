"""What the plans of snapshots, restores, clones and backups can say: writes, each against the version that was planned
on, and events.

Made by these plans, done by `snapshot_writes`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.backup_schedules import BackupSchedule
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.schedules import VirtualMachineSnapshotSchedule
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
)
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup, VirtualMachineBackupTracker
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

Made: TypeAlias = (
    VirtualMachineSnapshot
    | VirtualMachineSnapshotContent
    | VirtualMachineRestore
    | DataVolume
    | PersistentVolumeClaim
    | VolumeSnapshot
    | VirtualMachine
    | VirtualMachineExport
    | Pod
    | BackupRun
    | BackupTask
    | BackupTest
    | BackupRestore
)
Written: TypeAlias = (
    VirtualMachineClone
    | VirtualMachineSnapshotSchedule
    | BackupRepository
    | BackupSchedule
    | VirtualMachineInstance
    | PersistentVolume
    | VirtualMachineBackup
    | VirtualMachineBackupTracker
    | Made
)
Deleted: TypeAlias = VirtualMachineClone | VirtualMachineInstance | Made
# What a plan is about: its events are told of it.
About: TypeAlias = (
    VirtualMachineSnapshot
    | VirtualMachineRestore
    | VirtualMachineClone
    | VirtualMachineSnapshotSchedule
    | BackupRun
    | BackupRestore
    | BackupTask
    | BackupTest
    | BackupSchedule
    | VirtualMachineBackup
)


class Create(Struct, frozen=True):
    """Make an object."""

    item: Made


class Patch(Struct, frozen=True):
    """Change an object by a merge patch of the version that was read."""

    item: Written
    body: JsonObject
    subresource: str = ""


class PatchByOperations(Struct, frozen=True):
    """Change an object by JSON patch operations, all or none."""

    item: VirtualMachine
    operations: Sequence[JsonObject]


class Delete(Struct, frozen=True):
    """End an object, if it is still that one."""

    item: Deleted


class Freeze(Struct, frozen=True):
    """Begin to have a guest's file systems frozen by its agent, for the snapshot of this UID: what comes of it is seen
    by later plans. They thaw by themselves after so many seconds.
    """

    vmi: VirtualMachineInstance
    seconds: int
    snapshot: str


class Thaw(Struct, frozen=True):
    """Begin to have them thawed, for the snapshot of this UID, or have it done as soon as a freeze that goes on has
    ended: that it is done is seen by later plans.

    What fails is left to the launcher, which has promised to.
    """

    vmi: VirtualMachineInstance
    snapshot: str


SnapshotAction: TypeAlias = Create | Patch | PatchByOperations | Delete | Freeze | Thaw


class Told(Struct, frozen=True):
    """An event of the object that the plan is about."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class SnapshotPlan(Struct, frozen=True):
    """Actions in order, what is told once they are done, and when to look again."""

    actions: tuple[SnapshotAction, ...] = ()
    told: tuple[Told, ...] = ()
    again_after: float | None = None
