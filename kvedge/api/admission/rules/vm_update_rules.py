"""What of a VM may not be changed while a snapshot is taken of it, or one is put back, or its volumes get other claims.

Worded as KubeVirt words it. Works on documents as they came. Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, unsupported_cause
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.moved_volumes import MANUAL_RECOVERY_REQUIRED, MIGRATION
from kvedge.resources.role_users import UserInfo

_STRATEGY: Final = ("runStrategy", "running")


def vm_update_is_allowed(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    """A cause for each change that has to wait; the controller, which takes and restores snapshots, changes all."""
    if user.is_controller:
        return
    status = _object(old, "status")
    before, after = _object(old, "spec"), _object(new, "spec")
    snapshot, restore = status.get("snapshotInProgress"), status.get("restoreInProgress")
    restarted = any(before.get(name) != after.get(name) for name in _STRATEGY)
    if snapshot and _storage(before) != _storage(after):
        yield unsupported_cause("spec", f'Cannot update vm disks or volumes until snapshot "{snapshot}" completes')
    if snapshot and restarted:
        yield unsupported_cause("spec", f'Cannot update vm running state until snapshot "{snapshot}" completes')
    if restore and restarted:
        yield unsupported_cause("spec", f'Cannot update VM runStrategy until restore "{restore}" completes')
    strategy = "updateVolumesStrategy"
    if before.get(strategy) == MIGRATION != after.get(strategy) and _is_moving_data(status):
        text = (
            "cannot change while volumes are migrated: wait for the end, or put the original claims back; once"
            " status.volumeUpdateState is empty, it may change"
        )
        yield unsupported_cause(f"spec.{strategy}", f"spec.{strategy}: {text}")


def _is_moving_data(status: JsonObject) -> bool:
    """Whether claims are incomplete, and nobody has been asked to say which ones are to be used."""
    state = _object(_object(status, "volumeUpdateState"), "volumeMigrationState")
    conditions = status.get("conditions")
    told = (each for each in conditions if isinstance(each, dict)) if isinstance(conditions, list) else ()
    asked = any(each.get("type") == MANUAL_RECOVERY_REQUIRED and each.get("status") == "True" for each in told)
    return bool(state.get("migratedVolumes")) and not asked


def _storage(spec: JsonObject) -> tuple[object, object]:
    run = _object(_object(spec, "template"), "spec")
    return run.get("volumes") or [], _object(_object(run, "domain"), "devices").get("disks") or []


def _object(parent: JsonObject, name: str) -> JsonObject:
    member = parent.get(name)
    return member if isinstance(member, dict) else {}
