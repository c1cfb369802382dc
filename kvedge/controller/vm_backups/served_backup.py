"""The export by which clients fetch a backup of mode Pull, and where its volumes are to be had.

Called by `vm_backup_plan`. Pure. The export is an object of its own, owned by the backup: it goes with it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from kvedge.controller.snapshots.snapshot_actions import Create
from kvedge.controller.vm_backups.vm_backup_report import PROGRESSING
from kvedge.controller.vm_backups.vm_backup_view import VmBackupView
from kvedge.resources.disks.exports import backup_path, service_host
from kvedge.resources.meta import ObjectMeta, condition, owner_reference
from kvedge.resources.types.protection.exports import ExportSource, VirtualMachineExport, VirtualMachineExportSpec
from kvedge.resources.types.protection.vm_backups import (
    VM_BACKUP_GROUP,
    VirtualMachineBackup,
    VirtualMachineBackupStatus,
)
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.runtime.clock import parse_rfc3339

_DEFAULT_LIFE: Final = timedelta(hours=2)
# Longer than any backup is of use, and short enough to be counted with.
_LONGEST_LIFE: Final = timedelta(days=36500)


def export_name(backup: VirtualMachineBackup) -> str:
    """What the export is called: as KubeVirt has it, so that its clients find it."""
    return backup.metadata.name


def was_ready(backup: VirtualMachineBackup) -> bool:
    """Whether clients could ever fetch it."""
    return bool(backup.status.export_uid)


def life_of(backup: VirtualMachineBackup) -> timedelta:
    """How long it is served."""
    given = backup.spec.ttl_duration
    try:
        return _DEFAULT_LIFE if given is None else min(_LONGEST_LIFE, timedelta(seconds=parse_duration(given)))
    except (DurationError, OverflowError):
        return _DEFAULT_LIFE


def expiry(backup: VirtualMachineBackup) -> datetime:
    """When a backup's time is over: counted from when its export was ready, and before that from when it was whole."""
    found = condition(backup.status.conditions, PROGRESSING)
    since = (None if found is None else found.last_transition_time) or backup.metadata.creation_timestamp
    return parse_rfc3339(since or "1970-01-01T00:00:00Z") + life_of(backup)


def plan_export(view: VmBackupView, seconds: float) -> Create:
    """The export of a backup, for the rest of its time; one that is not ready yet has its whole time from then on."""
    backup = view.backup
    if not was_ready(backup):
        seconds += life_of(backup) / timedelta(seconds=1)
    meta = ObjectMeta(
        name=export_name(backup),
        namespace=backup.metadata.namespace,
        owner_references=[owner_reference(backup)],
    )
    spec = VirtualMachineExportSpec(
        source=ExportSource(api_group=VM_BACKUP_GROUP, kind=VirtualMachineBackup.KIND.kind, name=backup.metadata.name),
        token_secret_ref=backup.spec.token_secret_ref,
        ttl_duration=f"{max(1, int(seconds))}s",
    )
    return Create(VirtualMachineExport(metadata=meta, spec=spec))


def find_endpoints(
    status: VirtualMachineBackupStatus, export: VirtualMachineExport
) -> VirtualMachineBackupStatus | None:
    """The status with the ways to each volume; None while the export is not ready."""
    links = export.status.links
    if export.status.phase != "Ready" or links is None or links.internal is None:
        return None
    base = f"https://{service_host(export.metadata.namespace, export.metadata.name)}"
    volumes = [
        msgspec.structs.replace(
            each,
            data_endpoint=f"{base}{backup_path(each.volume_name, 'data')}",
            map_endpoint=f"{base}{backup_path(each.volume_name, 'map')}",
        )
        for each in status.included_volumes
    ]
    return msgspec.structs.replace(
        status, included_volumes=volumes, endpoint_cert=links.internal.cert, export_uid=export.metadata.uid
    )
