"""The controller's work that keeps VMs and their disks: snapshots, restores, clones, exports, backups.

Made by controller_service.py. Each part begins once the server has its kind.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from kvedge.controller.backups.backup_sources import BackupSources
from kvedge.controller.backups.restore_loop import make_return_work
from kvedge.controller.backups.run_loop import make_run_work
from kvedge.controller.backups.upkeep.boot_test_loop import make_boot_test_work
from kvedge.controller.backups.upkeep.schedule_loop import make_backup_schedule_work
from kvedge.controller.backups.upkeep.task_loop import make_task_work
from kvedge.controller.clones.clone_loop import make_clone_work
from kvedge.controller.exports.export_loop import ExportSources, exporter_pods, make_export_work
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.late_work import LateWork
from kvedge.controller.schedules.schedule_loop import SnapshotUsers, make_schedule_work
from kvedge.controller.snapshots.restore_loop import make_restore_work
from kvedge.controller.snapshots.snapshot_loop import SnapshotSources, make_snapshot_work
from kvedge.controller.vm_backups.tracking_loop import TrackingSources, make_tracking_work
from kvedge.controller.vm_backups.vm_backup_loop import VmBackupSources, make_vm_backup_work
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.disks.snapshot_names import BACKUP_WORKER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import CdiConfig, DataVolume
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
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock


class ProtectionSources(Struct, frozen=True):
    """The informers that somebody else starts, and the writers."""

    client: KubeClient
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    attachments: Informer[Pod]
    claims: Informer[PersistentVolumeClaim]
    data_volumes: Informer[DataVolume]
    events: EventRecorder
    clock: Clock
    config: Callable[[], ClusterConfig]
    cdi_config: Callable[[], CdiConfig | None]
    configuration: ConfigurationFollower


def make_protection_work(sources: ProtectionSources) -> dict[str, LateWork]:
    """All of it, by the names of its parts."""
    snapshots = _snapshot_sources(sources)
    backups = _backup_sources(sources, snapshots)
    clones = Informer(sources.client, VirtualMachineClone)
    exports = _export_sources(sources, snapshots)
    schedules = Informer(sources.client, VirtualMachineSnapshotSchedule)
    users = SnapshotUsers(clones, backups.runs, exports.exports)
    return {
        "snapshots": make_snapshot_work(snapshots),
        "restores": make_restore_work(snapshots),
        "clones": make_clone_work(snapshots, clones),
        "snapshot schedules": make_schedule_work(snapshots, schedules, users),
        "exports": make_export_work(exports),
        "backups": make_run_work(backups),
        "backup-restores": make_return_work(backups),
        "backup-tasks": make_task_work(backups),
        "backup-schedules": make_backup_schedule_work(backups),
        "VM backups": make_vm_backup_work(_vm_backup_sources(sources, exports)),
        "block tracking": make_tracking_work(
            TrackingSources(sources.client, sources.vms, sources.vmis, sources.events, sources.configuration)
        ),
        "backup-tests": make_boot_test_work(backups),
    }


def _vm_backup_sources(sources: ProtectionSources, exports: ExportSources) -> VmBackupSources:
    return VmBackupSources(
        sources.client,
        exports.backups,
        exports.trackers,
        sources.vms,
        sources.vmis,
        sources.claims,
        exports.exports,
        sources.events,
        sources.clock,
    )


def _snapshot_sources(sources: ProtectionSources) -> SnapshotSources:
    return SnapshotSources(
        sources.client,
        Informer(sources.client, VirtualMachineSnapshot),
        Informer(sources.client, VirtualMachineSnapshotContent),
        Informer(sources.client, VolumeSnapshot),
        Informer(sources.client, VirtualMachineRestore),
        sources.vms,
        sources.vmis,
        sources.pods,
        sources.attachments,
        sources.claims,
        sources.data_volumes,
        sources.events,
        sources.clock,
    )


def _export_sources(sources: ProtectionSources, snapshots: SnapshotSources) -> ExportSources:
    return ExportSources(
        sources.client,
        Informer(sources.client, VirtualMachineExport),
        exporter_pods(sources.client),
        sources.vms,
        sources.vmis,
        sources.claims,
        snapshots.snapshots,
        snapshots.contents,
        Informer(sources.client, VirtualMachineBackup),
        Informer(sources.client, VirtualMachineBackupTracker),
        sources.events,
        sources.clock,
        sources.config,
        sources.cdi_config,
    )


def _backup_sources(sources: ProtectionSources, snapshots: SnapshotSources) -> BackupSources:
    return BackupSources(
        sources.client,
        Informer(sources.client, BackupRun),
        Informer(sources.client, BackupRestore),
        Informer(sources.client, BackupRepository),
        Informer(sources.client, BackupTask),
        Informer(sources.client, BackupSchedule),
        Informer(sources.client, BackupTest),
        sources.vmis,
        Informer(sources.client, Pod, label_selector=BACKUP_WORKER),
        snapshots.snapshots,
        snapshots.contents,
        sources.vms,
        sources.claims,
        sources.events,
        sources.clock,
        sources.config,
    )
