"""The lines of `kvedge tasks`: what each kind of object says of its work, and in which order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvedge.client.tasks.task_rows import HEADER, TASK_KINDS, TaskRow, task_rows
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEGUN = "2026-01-02T11:58:30Z"
LATELY, LONG_AGO = "2026-01-02T11:59:30Z", "2026-01-02T10:59:30Z"


def make(cls: type, spec: JsonObject, status: JsonObject, created: str = BEGUN, name: str = "one") -> Any:
    metadata = {"name": name, "namespace": "shop", "creationTimestamp": created}
    return decode(cls, {"metadata": metadata, "spec": spec, "status": status})


def row(item: Any) -> TaskRow:
    (found,) = task_rows([item], NOW, HOUR)
    return found


def holds(type_: str, reason: str = "", message: str = "", moment: str = LATELY) -> JsonObject:
    return {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": moment}


SOURCE = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "till"}
TARGET = {**SOURCE, "name": "copy"}
CASES: list[tuple[str, type, JsonObject, JsonObject, tuple[str, str, str, int | None, str]]] = [
    (
        "an import",
        DataVolume,
        {"source": {"http": {"url": "http://x"}}},
        {"phase": "ImportInProgress", "progress": "37.5%", "conditions": []},
        ("import", "one", "Running", 37, "ImportInProgress"),
    ),
    (
        "an import that failed",
        DataVolume,
        {"source": {"registry": {"url": "docker://x"}}},
        {"phase": "Failed", "progress": "37.5%", "conditions": [holds("Running", message="404")]},
        ("import", "one", "Failed", None, "Failed: 404"),
    ),
    (
        "an upload",
        DataVolume,
        {"source": {"upload": {}}},
        {"phase": "UploadReady", "progress": "N/A"},
        ("upload", "one", "Running", None, "UploadReady"),
    ),
    (
        "a copy",
        DataVolume,
        {"source": {"pvc": {"name": "a", "namespace": "shop"}}},
        {"phase": "Succeeded", "progress": "100.0%", "conditions": [holds("Ready")]},
        ("copy", "one", "Succeeded", None, ""),
    ),
    (
        "a migration",
        VirtualMachineInstanceMigration,
        {"vmiName": "till"},
        {"phase": "Scheduling", "conditions": [holds("x", message="waits for a node")]},
        ("migration", "till", "Running", None, "Scheduling: waits for a node"),
    ),
    (
        "a migration that failed",
        VirtualMachineInstanceMigration,
        {"vmiName": "till"},
        {"phase": "Failed", "migrationState": {"failureReason": "no memory", "endTimestamp": LONG_AGO}},
        ("migration", "till", "Failed", None, "no memory"),
    ),
    (
        "a snapshot",
        VirtualMachineSnapshot,
        {"source": SOURCE},
        {"phase": "InProgress", "conditions": [holds("Progressing", "Copies are made")]},
        ("snapshot", "till", "Running", None, "Copies are made"),
    ),
    (
        "a restore",
        VirtualMachineRestore,
        {"target": SOURCE, "virtualMachineSnapshotName": "s"},
        {"complete": True, "restoreTime": LATELY},
        ("restore", "till", "Succeeded", None, ""),
    ),
    (
        "a clone",
        VirtualMachineClone,
        {"source": SOURCE, "target": TARGET},
        {"phase": "SnapshotInProgress", "conditions": [holds("Ready", "VMClone Processing")]},
        ("clone", "till to copy", "Running", None, "VMClone Processing"),
    ),
    (
        "a backup of KubeVirt's",
        VirtualMachineBackup,
        {"source": SOURCE},
        {"conditions": [holds("Failed", "NoRoom", "the claim is full")]},
        ("backup", "till", "Failed", None, "the claim is full"),
    ),
    (
        "a backup",
        BackupRun,
        {"vmName": "till", "repositoryName": "nas"},
        {"phase": "Copying", "progress": "5%"},
        ("backup", "till", "Running", 5, "5%"),
    ),
    (
        "a return",
        BackupRestore,
        {"repositoryName": "nas", "vmName": "till"},
        {"phase": "Succeeded", "completionTime": LATELY},
        ("return from a backup", "till", "Succeeded", None, ""),
    ),
    (
        "a task in a repository",
        BackupTask,
        {"action": "verify", "repositoryName": "nas"},
        {},
        ("backups: verify", "nas", "Running", None, "not seen by the controller yet"),
    ),
    (
        "a test",
        BackupTest,
        {"repositoryName": "nas", "vmName": "till"},
        {"phase": "Failed", "message": "it does not boot"},
        ("test of a backup", "till", "Failed", None, "it does not boot"),
    ),
]


@pytest.mark.parametrize(
    ("cls", "spec", "status", "shown"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_each_kind_tells_its_work(
    cls: type, spec: JsonObject, status: JsonObject, shown: tuple[str, str, str, int | None, str]
) -> None:
    found = row(make(cls, spec, status))
    assert (found.task, found.about, found.state, found.percent, found.message) == shown
    assert (found.begun, found.age, found.namespace, found.name) == (BEGUN, "1m30s", "shop", "one")
    assert len(found.cells(with_namespace=False)) == len(HEADER)
    assert found.document()["state"] == found.state


def test_each_kind_has_a_case() -> None:
    assert {case[1] for case in CASES} == set(TASK_KINDS)


def test_what_goes_on_comes_first_and_what_succeeded_long_ago_is_left_out() -> None:
    backup = {"vmName": "till", "repositoryName": "nas"}
    found = [
        make(BackupRun, backup, {"phase": "Succeeded", "completionTime": LONG_AGO}, name="old"),
        make(BackupRun, backup, {"phase": "Succeeded", "completionTime": "yesterday"}, name="odd"),
        make(BackupRun, backup, {"phase": "Succeeded"}, name="timeless"),
        make(BackupRun, backup, {"phase": "Failed", "completionTime": LONG_AGO}, name="failed"),
        make(BackupRun, backup, {"phase": "Succeeded", "completionTime": LATELY}, name="done"),
        make(BackupRun, backup, {"phase": "Copying"}, name="second"),
        make(BackupRun, backup, {"phase": "Copying"}, created=LONG_AGO, name="first"),
    ]
    assert [each.name for each in task_rows(found, NOW, HOUR)] == ["first", "second", "done", "failed"]


def test_what_is_deleted_is_being_ended() -> None:
    item = make(BackupRun, {"vmName": "till", "repositoryName": "nas"}, {"phase": "Copying"})
    item.metadata.deletion_timestamp = LATELY
    assert (row(item).message, row(item).is_ending, row(item).state) == ("is being ended", True, "Running")
