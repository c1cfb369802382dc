"""Whose backups may go, and which of them are in use."""

from __future__ import annotations

from typing import Any

from kvedge.controller.backups.upkeep.prune_targets import find_targets
from kvedge.resources.codec import decode
from kvedge.resources.types.protection.backup_schedules import SCHEDULE_UID, SEQUENCE
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import small_vmi, vm_of

TASK = decode(BackupTask, {"metadata": {"namespace": "default"}, "spec": {"vmNames": ["web", "gone", "web"]}})


def find_vm(namespace: str, name: str) -> VirtualMachine | None:
    if (namespace, name) != ("default", "web"):
        return None
    return decode(VirtualMachine, {**vm_of(small_vmi()), "metadata": {"name": "web", "uid": "uid-of-web"}})


def run(name: str, phase: str, sequence: int = 0, completed: str = "", **spec: Any) -> BackupRun:
    labels = {SCHEDULE_UID: "s", SEQUENCE: str(sequence)} if sequence else {}
    status = {"phase": phase, "backupID": f"id-{name}" if phase == "Succeeded" else "", "completionTime": completed}
    body = {"vmName": "web", "repositoryName": "usb", **spec}
    metadata = {"name": name, "uid": f"id-{name}", "labels": labels}
    return decode(BackupRun, {"metadata": metadata, "spec": body, "status": status})


def protected(runs: list[BackupRun], restores: list[BackupRestore]) -> list[str]:
    (target,), absent = find_targets(TASK, find_vm, runs, restores)
    assert (target.vm, target.uid, absent) == ("web", "uid-of-web", ["gone"])
    return target.protected


def test_a_backup_under_way_has_no_record_yet_and_is_no_abandoned_try() -> None:
    assert protected([run("a", "Copying"), run("b", "Failed"), run("c", "Copying", vmName="other")], []) == ["id-a"]


def test_the_latest_one_stays_although_the_clock_has_gone_back() -> None:
    runs = [
        run("old", "Succeeded", 1, "2026-05-05T00:00:00Z"),
        run("new", "Succeeded", 2, "1970-01-01T00:00:00Z"),
        run("by-hand", "Succeeded", 0, "2026-01-01T00:00:00Z"),
        run("elsewhere", "Succeeded", 1, "2025-01-01T00:00:00Z", repositoryName="nas"),
    ]
    assert protected(runs, []) == ["id-elsewhere", "id-new"]


def test_what_a_restore_works_with_stays_whoever_asked_for_it() -> None:
    restores = [
        decode(BackupRestore, {"spec": {"backupID": "asked"}, "status": {"phase": "Pending"}}),
        decode(BackupRestore, {"status": {"phase": "Restoring", "backupID": "found"}}),
        decode(BackupRestore, {"spec": {"backupID": "done"}, "status": {"phase": "Succeeded"}}),
    ]
    assert protected([], restores) == ["asked", "found"]
