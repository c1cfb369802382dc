"""Objects around backups, to which the plans' actions are applied as an API server would; snapshots and workers are
played by the tests.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kvedge.controller.backups.restore_plan import RestoreView, plan_restore
from kvedge.controller.backups.run_plan import RunView, plan_run
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotPlan, Told
from kvedge.resources.codec import JsonObject, decode, decode_json, encode, encode_json
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import (
    BACKUP_VARIABLE,
    BackupJob,
    BackupOutcome,
    BackupRecord,
    LiveState,
)
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotContent
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import rfc3339
from tests.support.builders import CONFIG, NOW, a_claim, patched, small_vmi, vm_of

UID = "0f5c0000-0000-4000-8000-00000000000a"
RESTORE_UID = "0f5c0000-0000-4000-8000-00000000000b"
CLASS = {"storage_class_name": "disks"}
GIB = 1 << 30


def the_vm() -> VirtualMachine:
    """A VM with a disk of its own DataVolume, a block device, and a disk that does not last."""
    template = {"metadata": {"name": "web-root"}, "spec": {"source": {"blank": {}}}}
    document = vm_of(small_vmi(), runStrategy="Always", dataVolumeTemplates=[template])
    document["metadata"] = {"name": "web", "namespace": "default", "uid": "uid-of-web", "labels": {"tier": "shop"}}
    document["spec"]["template"]["spec"]["volumes"] = [
        {"name": "root", "dataVolume": {"name": "web-root"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "web-data"}},
        {"name": "tools", "containerDisk": {"image": "demo:1"}},
    ]
    return decode(VirtualMachine, document)


def the_content() -> VirtualMachineSnapshotContent:
    """What a snapshot of that VM holds."""
    backups = [
        {
            "volumeName": volume,
            "persistentVolumeClaim": {
                "metadata": {"name": f"web-{volume}"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "volumeMode": mode,
                    "storageClassName": "disks",
                },
            },
            "volumeSnapshotName": f"copy-{volume}",
        }
        for volume, mode in (("root", "Filesystem"), ("data", "Block"))
    ]
    vm = encode(the_vm())
    spec = {"virtualMachineSnapshotName": "before", "source": {"virtualMachine": vm}, "volumeBackups": backups}
    return decode(
        VirtualMachineSnapshotContent, {"metadata": {"name": "content", "namespace": "default"}, "spec": spec}
    )


class World:
    """One VM, a repository, a backup, and a restore."""

    def __init__(self) -> None:
        self.now = NOW
        self.vm: VirtualMachine | None = the_vm()
        self.repository: BackupRepository | None = decode(
            BackupRepository,
            {
                "metadata": {"name": "usb", "namespace": "default"},
                "spec": {"claimName": "usb-backups", "secretName": "usb-key"},
            },
        )
        self.run: BackupRun | None = None
        self.restore: BackupRestore | None = None
        self.snapshot: VirtualMachineSnapshot | None = None
        self.content: VirtualMachineSnapshotContent | None = None
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.pods: dict[str, Pod] = {}
        self.record: BackupRecord | None = None
        self.live: LiveState | None = None
        self.progress = ""
        self.rival = self.refusal = self.twin = ""
        self.told: list[Told] = []

    def ask_backup(self, **spec: Any) -> None:
        metadata = {"name": "b", "namespace": "default", "uid": UID, "creationTimestamp": rfc3339(self.now)}
        body = {"vmName": "web", "repositoryName": "usb", **spec}
        self.run = decode(BackupRun, {"metadata": metadata, "spec": body})

    def ask_restore(self, **spec: Any) -> None:
        metadata = {"name": "r", "namespace": "default", "uid": RESTORE_UID}
        body = {"vmName": "web", "repositoryName": "usb", **spec}
        self.restore = decode(BackupRestore, {"metadata": metadata, "spec": body})

    def have_snapshot(self, *, ready: bool = True, name: str = "", **status: Any) -> None:
        """Play the snapshot's controller."""
        metadata = {"name": name or f"backup-{UID}", "namespace": "default"}
        said = {"phase": "Succeeded", "readyToUse": ready, "creationTime": "2026-01-02T03:04:05Z", **status}
        spec = {"source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}}
        self.snapshot = decode(VirtualMachineSnapshot, {"metadata": metadata, "spec": spec, "status": said})
        if ready:
            self.content = the_content()
            self.claims["copy-root"] = a_claim("copy-root", **CLASS)
            self.claims["copy-data"] = a_claim("copy-data", volume_mode="Block", **CLASS)

    def look(self) -> SnapshotPlan:
        assert self.run is not None
        worker = self.pods.get(f"backup-{UID}")
        view = RunView(
            self.run, self.repository, self.vm, self.snapshot, self.content, self.claims, worker, CONFIG, self.rival,
            self.refusal,
        )  # fmt: skip
        return plan_run(view, self.now)

    def look_at_restore(self) -> SnapshotPlan:
        assert self.restore is not None
        vm = self.vm if self.vm is not None and self.vm.metadata.name == self.restore.target else None
        names = {each.claim_name for each in self.restore.status.volumes}
        view = RestoreView(
            self.restore, self.repository, vm, {name: self.claims[name] for name in names if name in self.claims},
            self.pods.get(f"read-{RESTORE_UID}"), self.pods.get(f"{self.mode}-{RESTORE_UID}"), CONFIG, self.record,
            "token", progress=self.progress, live=self.live, twin=self.twin,
        )  # fmt: skip
        return plan_restore(view, self.now)

    @property
    def mode(self) -> str:
        """That of the worker which has the restore's claims."""
        return "serve" if self.restore is not None and self.restore.spec.live else "restore"

    def settle(self, which: str = "run") -> SnapshotPlan:
        """Do what the plan says until it says nothing more."""
        for _ in range(20):
            plan = self.look() if which == "run" else self.look_at_restore()
            if not plan.actions:
                return plan
            for action in plan.actions:
                self._do(action)
            self.told += plan.told
        raise AssertionError(f"the plan does not settle: {plan}")

    def job(self, mode: str) -> BackupJob:
        """What the worker of an errand was told."""
        uid = UID if mode == "backup" else RESTORE_UID
        container = self.pods[f"{mode}-{uid}"].spec.containers[0]
        return decode_json(BackupJob, next(env.value or "" for env in container.env if env.name == BACKUP_VARIABLE))

    def end(self, mode: str, outcome: BackupOutcome, *, well: bool = True) -> None:
        """Play the worker's end."""
        uid = UID if mode == "backup" else RESTORE_UID
        terminated = {"exitCode": 0 if well else 1, "reason": "Completed", "message": encode_json(outcome).decode()}
        status = {
            "phase": "Succeeded" if well else "Failed",
            "containerStatuses": [
                {
                    "name": "backup",
                    "ready": False,
                    "restartCount": 0,
                    "image": "",
                    "imageID": "",
                    "state": {"terminated": terminated},
                }
            ],
        }
        pod = self.pods[f"{mode}-{uid}"]
        self.pods[f"{mode}-{uid}"] = decode(Pod, {**encode(pod), "status": status})

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def _do(self, action: Any) -> None:
        match action:
            case Create(Pod() as item):
                self.pods[item.metadata.name] = item
            case Create(PersistentVolumeClaim() as item):
                item.metadata.uid = f"uid-of-{item.metadata.name}"
                self.claims[item.metadata.name] = item
            case Create(VirtualMachineSnapshot() as item):
                self.snapshot = item
            case Create(VirtualMachine() as item):
                item.metadata.uid = "uid-of-the-new-one"
                self.vm = item
            case Delete(Pod() as item):
                del self.pods[item.metadata.name]
            case Delete(VirtualMachineSnapshot()):
                self.snapshot = None
            case Patch(item, body):
                made: Any = decode(type(item), patched(encode(item), body))
                self._put(made)
            case _:
                raise AssertionError(f"no action that a backup has: {action}")

    def _put(self, made: Any) -> None:
        if isinstance(made, PersistentVolumeClaim):
            self.claims[made.metadata.name] = made
        elif isinstance(made, BackupRun):
            self.run = made
        else:
            assert isinstance(made, BackupRestore)
            self.restore = made


def a_record(**changed: Any) -> BackupRecord:
    """What the repository has of the VM."""
    volumes = [{"name": "root", "place": "", "size": GIB}, {"name": "data", "place": "", "block": True, "size": GIB}]
    content: JsonObject = encode(the_content().spec)
    return decode(
        BackupRecord,
        {"id": UID, "namespace": "default", "vm": "web", "volumes": volumes, "content": content, **changed},
    )
