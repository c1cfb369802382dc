"""What all loops of backups work with, and what they ask in the same way of their workers.

Made by the controller's protection work. Reads informers, and asks a worker how far it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec import Struct

from kvedge.controller.backups.record_client import fetch_result
from kvedge.controller.backups.worker_pods import has_ended, is_worker, token_of
from kvedge.controller.datavolumes.workers.progress_client import ask_progress
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.snapshots.snapshot_writes import PassLimits, SnapshotWrites
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import DecodeError
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_schedules import BackupSchedule
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotContent
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")
Owned = TypeVar("Owned", Pod, BackupRestore)

# Of all loops: workers take their time.
LIMITS: Final = PassLimits(12, 15.0, shortest=0.5, rests=True)


class BackupSources(Struct, frozen=True):
    """The informers and writers that all loops of backups work with; `workers` are the Pods of backups."""

    client: KubeClient
    runs: Informer[BackupRun]
    restores: Informer[BackupRestore]
    repositories: Informer[BackupRepository]
    tasks: Informer[BackupTask]
    schedules: Informer[BackupSchedule]
    tests: Informer[BackupTest]
    vmis: Informer[VirtualMachineInstance]
    workers: Informer[Pod]
    snapshots: Informer[VirtualMachineSnapshot]
    contents: Informer[VirtualMachineSnapshotContent]
    vms: Informer[VirtualMachine]
    claims: Informer[PersistentVolumeClaim]
    events: EventRecorder
    clock: Clock
    cluster: Callable[[], ClusterConfig]

    def writes(self) -> SnapshotWrites:
        """What these loops write with."""
        informers: dict[type, Informer[Any]] = {
            BackupRun: self.runs,
            BackupRestore: self.restores,
            BackupRepository: self.repositories,
            BackupTask: self.tasks,
            BackupSchedule: self.schedules,
            BackupTest: self.tests,
            VirtualMachineSnapshot: self.snapshots,
            VirtualMachine: self.vms,
            PersistentVolumeClaim: self.claims,
            Pod: self.workers,
        }
        return SnapshotWrites(self.client, self.events, informers)


def wake_owners(informer: Informer[Owned], loop: ReconcileLoop, kind: str) -> None:
    """Have what owns an object of the informer looked at when the object changes."""

    def on_change(old: Owned | None, new: Owned | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        if owner is not None and owner.kind == kind:
            loop.add(Key(item.metadata.namespace, owner.name))

    informer.on_change(on_change)


def find_exclusive(sources: BackupSources, item: BackupRun | BackupRestore) -> str:
    """The task that has the repository of a backup or a restore for itself now; empty for none."""
    namespace, place = item.metadata.namespace, item.spec.repository_name
    for task in sources.tasks.list():
        is_there = task.metadata.namespace == namespace and task.spec.repository_name == place
        if is_there and task.is_exclusive and task.status.phase == "Running":
            return task.metadata.name
    return ""


def find_worker(sources: BackupSources, owner: BackupRun | BackupRestore | BackupTask, mode: str) -> Pod | None:
    """The worker of an errand, if the Pod of its name is one."""
    pod = sources.workers.get(owner.metadata.namespace, f"{mode}-{owner.metadata.uid}")
    return pod if pod is not None and is_worker(pod, owner, mode) else None


def find_stranger(sources: BackupSources, owner: BackupRun | BackupRestore | BackupTask, *modes: str) -> str:
    """What to say of a Pod that has a worker's name and is none; empty for none."""
    for mode in modes:
        pod = sources.workers.get(owner.metadata.namespace, f"{mode}-{owner.metadata.uid}")
        if pod is not None and not is_worker(pod, owner, mode):
            return f"Pod {pod.metadata.name} is in the way: kvedge has not made it as it is; delete it"
    return ""


def ask_worker(worker: Pod | None) -> str:
    """How far a worker is; empty when it does not say."""
    if worker is None or worker.status.phase != "Running" or has_ended(worker) or not worker.status.pod_ip:
        return ""
    return ask_progress(worker.status.pod_ip)


def read_result(cls: type[T], worker: Pod | None) -> T | None:
    """What a worker that reads hands out; None while there is nothing."""
    if worker is None or worker.status.phase != "Running" or not worker.status.pod_ip:
        return None
    try:
        return fetch_result(cls, worker.status.pod_ip, token_of(worker))
    except DecodeError as error:
        log.warning(
            "a worker handed out nothing of use", extra={"facts": {"pod": worker.metadata.name, "why": str(error)}}
        )
        return None
