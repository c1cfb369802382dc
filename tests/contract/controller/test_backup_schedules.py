"""Schedules of backups and tasks in repositories on both servers, by the controller's own rights; the test plays
volumes and workers.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode
from kvedge.resources.meta import condition
from kvedge.resources.types.protection.backup_job import BackupOutcome
from kvedge.resources.types.protection.backup_schedules import BackupSchedule
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from tests.contract.controller.test_backups import add_repository, play_end, wait_for_phase, worker_of
from tests.contract.controller.test_snapshots import controller, fill, is_gone, make_vm
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
__all__ = ["controller"]


def ask_schedule(server: EitherServer, namespace: str, **spec: Any) -> None:
    body = {"selector": {}, "repositoryName": "usb", "every": "24h", "keep": {"last": 1}, **spec}
    document = {"metadata": {"name": "nightly", "namespace": namespace}, "spec": body}
    server.admin.create(decode(BackupSchedule, document))


def schedule_of_test(server: EitherServer, namespace: str) -> BackupSchedule:
    return server.admin.get(BackupSchedule, namespace, "nightly")


def make_due(server: EitherServer, namespace: str) -> None:
    """The next round is due: the last one was long ago. The controller writes the status meanwhile."""
    body = MergePatch({"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}})
    server.admin.patch(BackupSchedule, namespace, "nightly", body, "status")


def find(server: EitherServer, cls: Any, namespace: str, name: str) -> Any:
    def is_there() -> Any:
        return next((each for each in server.admin.list(cls, namespace) if each.metadata.name == name), None)

    return wait_until(is_there, f"{name} is made", 30)


def carry(server: EitherServer, namespace: str, name: str) -> None:
    """Play all of a backup."""
    run = find(server, BackupRun, namespace, name)
    snapshot = find(server, VirtualMachineSnapshot, namespace, f"backup-{run.metadata.uid}")
    for volume in ("root", "data"):
        fill(server, namespace, f"vmsnapshot-{snapshot.metadata.uid}-volume-{volume}")
    play_end(server, worker_of(server, namespace, f"backup-{run.metadata.uid}"), BackupOutcome(size=7, added=3))
    wait_for_phase(server, BackupRun, namespace, name, "Succeeded")


def ready(server: EitherServer, namespace: str) -> str:
    found = condition(schedule_of_test(server, namespace).status.conditions, "Ready")
    return "" if found is None else f"{found.status} {found.reason}"


def test_a_round_is_made_pruned_and_followed_by_the_next(either_server: EitherServer) -> None:
    namespace = either_server.new_namespace()
    vm = make_vm(either_server, namespace)
    add_repository(either_server, namespace)
    ask_schedule(either_server, namespace)
    carry(either_server, namespace, "web-nightly-000001")
    prune = find(either_server, BackupTask, namespace, "nightly-prune-000001")
    worker = worker_of(either_server, namespace, f"prune-{prune.metadata.uid}")
    told = worker.spec.containers[0].env[0].value or ""
    assert vm.metadata.uid in told
    run = either_server.admin.get(BackupRun, namespace, "web-nightly-000001")
    assert run.metadata.uid in told, "the latest one is protected"
    play_end(either_server, worker, BackupOutcome(message="1 backups removed", removed=1, kept=1))
    done = wait_for_phase(either_server, BackupTask, namespace, "nightly-prune-000001", "Succeeded")
    assert (done.status.removed, done.status.kept) == (1, 1)
    wait_until(lambda: ready(either_server, namespace) == "True Scheduled", "all is well", 30)

    make_due(either_server, namespace)
    carry(either_server, namespace, "web-nightly-000002")
    status = schedule_of_test(either_server, namespace).status
    assert status.last_sequence == 2
    either_server.admin.delete(BackupSchedule, namespace, "nightly")
    assert not is_gone(either_server, BackupRun, namespace, "web-nightly-000001"), "what was done stays told"


def test_a_verification_tells_its_repository_and_waits_for_nobody_else(either_server: EitherServer) -> None:
    namespace = either_server.new_namespace()
    add_repository(either_server, namespace)
    for number in (1, 2):
        spec = {"action": "Verify", "repositoryName": "usb", "parts": 2}
        document = {"metadata": {"name": f"t{number}", "namespace": namespace}, "spec": spec}
        made = either_server.admin.create(decode(BackupTask, document))
        worker = worker_of(either_server, namespace, f"verify-{made.metadata.uid}")
        assert f'"part":{number}' in (worker.spec.containers[0].env[0].value or "")
        play_end(either_server, worker, BackupOutcome(message="whole"))
        wait_for_phase(either_server, BackupTask, namespace, f"t{number}", "Succeeded")
    repository = either_server.admin.get(BackupRepository, namespace, "usb")
    found = condition(repository.status.conditions, "Verified")
    assert found is not None
    assert (found.status, repository.status.next_part, bool(repository.status.last_full_time)) == ("True", 1, True)


def test_a_task_waits_for_its_repository_and_fails_without_a_vm(either_server: EitherServer) -> None:
    namespace = either_server.new_namespace()
    spec = {"action": "Prune", "repositoryName": "usb", "vmNames": ["gone"], "keep": {"last": 1}}
    document = {"metadata": {"name": "t", "namespace": namespace}, "spec": spec}
    either_server.admin.create(decode(BackupTask, document))

    def waits() -> bool:
        said = either_server.admin.get(BackupTask, namespace, "t").status.message
        return said == "BackupRepository usb does not exist"

    wait_until(waits, "it says what it waits for", 30)
    add_repository(either_server, namespace)
    done = wait_for_phase(either_server, BackupTask, namespace, "t", "Failed")
    assert done.status.message == "no VM of these is there: gone"


def test_a_backup_that_is_tried_owns_all_that_is_made_for_it(either_server: EitherServer) -> None:
    namespace = either_server.new_namespace()
    add_repository(either_server, namespace)
    spec = {"vmName": "web", "repositoryName": "usb"}
    document = {"metadata": {"name": "t", "namespace": namespace}, "spec": spec}
    made = either_server.admin.create(decode(BackupTest, document))
    name = f"backup-test-{made.metadata.uid}"
    restore = find(either_server, BackupRestore, namespace, name)
    owner = restore.metadata.controller_reference()
    assert owner is not None
    assert (owner.uid, restore.spec.isolated) == (made.metadata.uid, True)
    reader = worker_of(either_server, namespace, f"read-{restore.metadata.uid}")
    play_end(either_server, reader, BackupOutcome(message="no backup of it", fatal=True), well=False)
    done = wait_for_phase(either_server, BackupTest, namespace, "t", "Failed")
    assert done.status.message == "it cannot be restored: no backup of it"
    wait_until(lambda: is_gone(either_server, BackupRestore, namespace, name), "the restore goes", 30)
