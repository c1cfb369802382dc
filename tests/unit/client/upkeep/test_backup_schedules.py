"""Schedules of backups as a row, and durations as people write them."""

from __future__ import annotations

import pytest

from kvedge.client.upkeep.backup_schedules import in_hours, make_cells
from kvedge.resources.codec import decode
from kvedge.resources.types.protection.backup_schedules import BackupSchedule


@pytest.mark.parametrize(
    ("text", "hours"), [("1d", "24h"), ("2w", "336h"), ("90m", "90m"), ("", ""), ("d", "d"), ("1d12h", "1d12h")]
)
def test_days_and_weeks_become_hours(text: str, hours: str) -> None:
    assert in_hours(text) == hours


def test_a_row_says_which_vms_and_what_is_wrong() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "BackupFailed", "message": "VM web: no route to host"}
    status = {"conditions": [ready], "lastSuccessTime": "2026-01-01T00:00:00Z", "nextScheduleTime": "soon"}
    spec = {"vmNames": ["a", "b", "c", "d"], "selector": {}, "repositoryName": "usb", "every": "24h"}
    spec["keep"] = {"last": 3, "monthly": 6}
    metadata = {"name": "nightly", "namespace": "shop"}
    schedule = decode(BackupSchedule, {"metadata": metadata, "spec": spec, "status": status})
    assert make_cells(schedule, with_namespace=True) == [
        "shop",
        "nightly",
        "a,b,c +2",
        "usb",
        "24h",
        "3 last, 6 monthly",
        "2026-01-01T00:00:00Z",
        "soon",
        "BackupFailed: VM web: no route to host",
    ]
