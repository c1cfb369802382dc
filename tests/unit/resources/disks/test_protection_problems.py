"""What is told of schedules, repositories and backups."""

from __future__ import annotations

from typing import Any

from kvedge.resources.codec import decode
from kvedge.resources.disks.protection_problems import find_problems
from kvedge.resources.types.protection.backup_schedules import SCHEDULE, BackupSchedule
from kvedge.resources.types.protection.backups import BackupRepository, BackupRun


def told(*items: Any) -> list[str]:
    return [str(each) for each in find_problems(items)]


def a_run(name: str, phase: str, created: str, **labels: str) -> BackupRun:
    metadata = {"name": name, "namespace": "shop", "creationTimestamp": created, "labels": labels}
    spec = {"vmName": "web", "repositoryName": "usb"}
    return decode(BackupRun, {"metadata": metadata, "spec": spec, "status": {"phase": phase, "message": "no room"}})


def test_a_schedule_that_is_not_ready_and_a_damaged_repository_are_told() -> None:
    metadata = {"name": "usb", "namespace": "shop"}
    late = {"type": "Ready", "status": "False", "reason": "Late", "message": "b is not complete"}
    bad = {"type": "Verified", "status": "False", "reason": "Damaged", "message": "part 2"}
    good = {"type": "Ready", "status": "True", "reason": "Scheduled"}
    assert told(
        decode(BackupSchedule, {"metadata": metadata, "status": {"conditions": [late]}}),
        decode(BackupSchedule, {"metadata": metadata, "status": {"conditions": [good]}}),
        decode(BackupSchedule, {"metadata": metadata}),
        decode(BackupRepository, {"metadata": metadata, "status": {"conditions": [bad]}}),
    ) == [
        "backup schedule shop/usb: Late: b is not complete",
        "backup repository shop/usb: Damaged: part 2",
    ]


def test_a_failed_backup_is_told_until_one_succeeds_and_not_twice_for_a_schedule() -> None:
    failed, done = a_run("b1", "Failed", "2026-01-01T00:00:00Z"), a_run("b2", "Succeeded", "2026-01-02T00:00:00Z")
    assert told(failed) == ["backup shop/b1: BackupFailed: no room"]
    assert told(done, failed) == []
    assert told(failed, a_run("b3", "Copying", "2026-01-03T00:00:00Z")) == ["backup shop/b1: BackupFailed: no room"]
    assert told(a_run("b4", "Failed", "2026-01-01T00:00:00Z", **{SCHEDULE: "nightly"})) == []
