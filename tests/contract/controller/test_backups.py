"""Backups on both servers, by the controller's own rights; the test plays volumes and workers."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode, encode_json
from kvedge.resources.disks.snapshot_names import BACKUP_WORKER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import BackupOutcome
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from tests.contract.controller.test_snapshots import controller, fill, is_gone, make_vm, take_snapshot
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
__all__ = ["controller"]


def add_repository(server: EitherServer, namespace: str) -> None:
    spec = {"claimName": "usb-backups", "secretName": "usb-key"}
    document = {"metadata": {"name": "usb", "namespace": namespace}, "spec": spec}
    server.admin.create(decode(BackupRepository, document))


def ask_backup(server: EitherServer, namespace: str, **spec: Any) -> BackupRun:
    body = {"vmName": "web", "repositoryName": "usb", **spec}
    return server.admin.create(decode(BackupRun, {"metadata": {"name": "b", "namespace": namespace}, "spec": body}))


def worker_of(server: EitherServer, namespace: str, name: str) -> Pod:
    def found() -> Pod | None:
        pods = server.admin.list(Pod, namespace, label_selector=BACKUP_WORKER)
        return next((pod for pod in pods if pod.metadata.name == name), None)

    return wait_until(found, f"the worker {name} is made", 30)


def play_end(server: EitherServer, pod: Pod, outcome: BackupOutcome, *, well: bool = True) -> None:
    ended = {"exitCode": 0 if well else 1, "message": encode_json(outcome).decode(), "reason": "Completed"}
    container = {"name": "backup", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    status = {
        "phase": "Succeeded" if well else "Failed",
        "containerStatuses": [{**container, "state": {"terminated": ended}}],
    }
    server.admin.patch(Pod, pod.metadata.namespace, pod.metadata.name, MergePatch({"status": status}), "status")


def wait_for_phase(server: EitherServer, cls: Any, namespace: str, name: str, phase: str) -> Any:
    def is_there() -> Any:
        found = server.admin.get(cls, namespace, name)
        assert found.status.phase == phase or not found.is_final, found.status
        return found if found.status.phase == phase else None

    return wait_until(is_there, f"{name} is in phase {phase}", 30)


def test_a_backup_takes_a_snapshot_and_lets_it_go_again(either_server: EitherServer) -> None:
    namespace = either_server.new_namespace()
    make_vm(either_server, namespace)
    run = ask_backup(either_server, namespace)

    def waits() -> bool:
        said = either_server.admin.get(BackupRun, namespace, "b").status.message
        return said == "BackupRepository usb does not exist"

    wait_until(waits, "it says what it waits for", 30)
    add_repository(either_server, namespace)
    taken = f"backup-{run.metadata.uid}"
    snapshot = wait_until(
        lambda: next(iter(either_server.admin.list(VirtualMachineSnapshot, namespace)), None),
        "a snapshot is taken",
        30,
    )
    assert snapshot.metadata.name == taken
    for volume in ("root", "data"):
        fill(either_server, namespace, f"vmsnapshot-{snapshot.metadata.uid}-volume-{volume}")
    worker = worker_of(either_server, namespace, f"backup-{run.metadata.uid}")
    play_end(either_server, worker, BackupOutcome(message="Backup Complete", size=7, added=3))
    done = wait_for_phase(either_server, BackupRun, namespace, "b", "Succeeded")
    assert (done.status.size, done.status.added, done.status.backup_id) == (7, 3, run.metadata.uid)
    wait_until(lambda: is_gone(either_server, VirtualMachineSnapshot, namespace, taken), "the snapshot goes", 30)


def test_a_failed_worker_is_told_and_tried_again(either_server: EitherServer) -> None:
    namespace = either_server.new_namespace()
    make_vm(either_server, namespace)
    add_repository(either_server, namespace)
    take_snapshot(either_server, namespace, "before")
    run = ask_backup(either_server, namespace, snapshotName="before")
    worker = worker_of(either_server, namespace, f"backup-{run.metadata.uid}")
    play_end(either_server, worker, BackupOutcome(message="no route to host"), well=False)

    def is_told() -> bool:
        found = either_server.admin.get(BackupRun, namespace, "b").status
        return "no route to host" in found.message and found.attempts == 1

    wait_until(is_told, "the failure is told", 30)
    wait_until(
        lambda: worker_of(either_server, namespace, worker.metadata.name).metadata.uid != worker.metadata.uid,
        "another worker is made",
        40,
    )
    second = worker_of(either_server, namespace, worker.metadata.name)
    play_end(either_server, second, BackupOutcome(fatal=True), well=False)
    wait_for_phase(either_server, BackupRun, namespace, "b", "Failed")
    # It was there before.
    assert not is_gone(either_server, VirtualMachineSnapshot, namespace, "before")


def test_a_restore_reads_the_record_first_and_touches_no_vm(either_server: EitherServer) -> None:
    namespace = either_server.new_namespace()
    add_repository(either_server, namespace)
    spec = {"vmName": "lost", "repositoryName": "usb"}
    made = either_server.admin.create(
        decode(BackupRestore, {"metadata": {"name": "r", "namespace": namespace}, "spec": spec})
    )
    reader = worker_of(either_server, namespace, f"read-{made.metadata.uid}")
    play_end(either_server, reader, BackupOutcome(message="the repository has no backup", fatal=True), well=False)
    done = wait_for_phase(either_server, BackupRestore, namespace, "r", "Failed")
    assert done.status.message == "the repository has no backup"

    make_vm(either_server, namespace)
    spec = {"vmName": "web", "repositoryName": "usb"}
    either_server.admin.create(decode(BackupRestore, {"metadata": {"name": "s", "namespace": namespace}, "spec": spec}))
    done = wait_for_phase(either_server, BackupRestore, namespace, "s", "Failed")
    assert "VM web exists" in done.status.message


def test_a_pod_that_only_has_a_worker_s_name_is_told_and_does_not_count(either_server: EitherServer) -> None:
    namespace = either_server.new_namespace()
    make_vm(either_server, namespace)
    take_snapshot(either_server, namespace, "before")
    run = ask_backup(either_server, namespace, snapshotName="before")
    owner = {
        "apiVersion": "backup.kvedge.io/v1alpha1", "kind": "BackupRun", "name": "b", "uid": run.metadata.uid,
        "controller": True,
    }  # fmt: skip
    metadata = {
        "name": f"backup-{run.metadata.uid}", "namespace": namespace, "ownerReferences": [owner],
        "labels": {BACKUP_WORKER: run.metadata.uid},
    }  # fmt: skip
    spec = {"containers": [{"name": "backup", "image": "example.com/mine", "command": ["true"]}]}
    foreign = either_server.admin.create(decode(Pod, {"metadata": metadata, "spec": spec}))
    add_repository(either_server, namespace)
    play_end(either_server, foreign, BackupOutcome(message="Backup Complete", size=7))

    def is_told() -> bool:
        found = either_server.admin.get(BackupRun, namespace, "b")
        assert not found.is_final, found.status
        return "is in the way" in found.status.message

    wait_until(is_told, "the Pod in the way is told", 30)
    either_server.admin.delete(Pod, namespace, foreign.metadata.name)
    wait_until(
        lambda: worker_of(either_server, namespace, foreign.metadata.name).metadata.uid != foreign.metadata.uid,
        "a worker is made",
        40,
    )
