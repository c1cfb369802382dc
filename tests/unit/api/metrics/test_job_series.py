"""The series of migrations and snapshots."""

from __future__ import annotations

from typing import get_args

from kvedge.api.metrics.exposition import render
from kvedge.api.metrics.job_series import count_migrations, tell_migration, tell_snapshot
from kvedge.resources.codec import decode
from kvedge.resources.types.migrations import MigrationPhase, VirtualMachineInstanceMigration
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from tests.unit.api.metrics.test_exposition import read_back


def migration(phase: str) -> VirtualMachineInstanceMigration:
    document = {"metadata": {"name": "m", "namespace": "shop"}, "spec": {"vmiName": "web"}, "status": {"phase": phase}}
    return decode(VirtualMachineInstanceMigration, document)


def test_migrations_are_counted_by_where_they_are() -> None:
    found = read_back(render(count_migrations([migration(phase) for phase in get_args(MigrationPhase)])))
    counts = {name.removeprefix("kubevirt_vmi_migrations_in_"): value for name, ((_, value),) in found.items()}
    assert counts == {"unset_phase": 1, "pending_phase": 1, "scheduling_phase": 1, "running_phase": 4}


def test_without_migrations_the_counts_are_0() -> None:
    found = read_back(render(count_migrations([])))
    assert list(found.values()) == [[({}, 0.0)]] * 4


def test_a_migration_tells_how_it_has_ended() -> None:
    labels = {"vmi": "web", "vmim": "m", "namespace": "shop"}
    assert list(tell_migration(migration("Succeeded"))) == [("kubevirt_vmi_migration_succeeded", labels, 1)]
    assert list(tell_migration(migration("Failed"))) == [("kubevirt_vmi_migration_failed", labels, 1)]
    assert list(tell_migration(migration("Running"))) == []


def test_a_snapshot_is_told_with_its_moment_once_it_has_succeeded() -> None:
    document = {
        "metadata": {"name": "s", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"source": {"kind": "VirtualMachine", "name": "web"}},
        "status": {"phase": "Succeeded", "readyToUse": True, "creationTime": "2026-01-02T03:04:07Z"},
    }
    labels = {"name": "s", "namespace": "shop", "uid": "u", "vm": "web", "phase": "succeeded", "ready_to_use": "true"}
    info, made, done = tell_snapshot(decode(VirtualMachineSnapshot, document))
    assert info == ("kubevirt_vmsnapshot_info", labels, 1)
    assert made == (
        "kubevirt_vmsnapshot_create_date_timestamp_seconds",
        {"name": "s", "namespace": "shop"},
        1767323045,
    )
    assert done == (
        "kubevirt_vmsnapshot_succeeded_timestamp_seconds",
        {"name": "web", "snapshot_name": "s", "namespace": "shop"},
        1767323047,
    )
    document["status"] = {"phase": "InProgress"}
    assert len(list(tell_snapshot(decode(VirtualMachineSnapshot, document)))) == 2
