"""The series of migrations and snapshots: how many there are in which phase, and how each has ended.

Called by object_series.py. Pure. Names, types and labels are KubeVirt's, those of its development branch among them.
Unlike KubeVirt's, a snapshot's series go with the snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kvedge.api.metrics.exposition import Metric
from kvedge.api.metrics.series_table import Table, Told, gauge, unix_seconds
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot

_IN_PHASE: Final = "kubevirt_vmi_migrations_in_{}_phase"
# A phase that has no name here, one to come, is one of a migration that is under way.
_PHASE_GROUPS: Final = {"": "unset", "Pending": "pending", "Scheduling": "scheduling"}
_RUNNING: Final = "running"

COUNTS: Final[Table] = {
    _IN_PHASE.format(group): gauge(f"How many migrations are {group}.") for group in (*_PHASE_GROUPS.values(), _RUNNING)
}
MIGRATIONS: Final[Table] = {
    "kubevirt_vmi_migration_succeeded": gauge("Migrations that have succeeded."),
    "kubevirt_vmi_migration_failed": gauge("Migrations that have failed."),
}
SNAPSHOTS: Final[Table] = {
    "kubevirt_vmsnapshot_info": gauge("Snapshots, and how they are."),
    "kubevirt_vmsnapshot_create_date_timestamp_seconds": gauge("When a snapshot was made."),
    "kubevirt_vmsnapshot_succeeded_timestamp_seconds": gauge("As of which moment a snapshot that succeeded is."),
}


def count_migrations(migrations: Sequence[VirtualMachineInstanceMigration]) -> list[Metric]:
    """How many are in which phase."""
    open_ones = (migration for migration in migrations if not migration.is_final)
    counts = Counter(_PHASE_GROUPS.get(migration.status.phase, _RUNNING) for migration in open_ones)
    metrics = {name: Metric(name, row.kind, row.help) for name, row in COUNTS.items()}
    for group in (*_PHASE_GROUPS.values(), _RUNNING):
        metrics[_IN_PHASE.format(group)].add({}, counts[group])
    return list(metrics.values())


def tell_migration(migration: VirtualMachineInstanceMigration) -> Iterator[Told]:
    """How it ended, if it has."""
    if migration.is_final:
        meta = migration.metadata
        labels = {"vmi": migration.spec.vmi_name, "vmim": meta.name, "namespace": meta.namespace}
        yield Told(f"kubevirt_vmi_migration_{migration.status.phase.lower()}", labels, 1)


def tell_snapshot(snapshot: VirtualMachineSnapshot) -> Iterator[Told]:
    """The samples of one snapshot."""
    meta, status, vm = snapshot.metadata, snapshot.status, snapshot.spec.source.name
    labels = {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "vm": vm,
        "phase": status.phase.lower(),
        "ready_to_use": str(bool(status.ready_to_use)).lower(),
    }
    yield Told("kubevirt_vmsnapshot_info", labels, 1)
    made, moment = unix_seconds(meta.creation_timestamp), unix_seconds(status.creation_time)
    if made is not None:
        base = {"name": meta.name, "namespace": meta.namespace}
        yield Told("kubevirt_vmsnapshot_create_date_timestamp_seconds", base, made)
    if status.phase == "Succeeded" and moment is not None:
        names = {"name": vm, "snapshot_name": meta.name, "namespace": meta.namespace}
        yield Told("kubevirt_vmsnapshot_succeeded_timestamp_seconds", names, moment)
