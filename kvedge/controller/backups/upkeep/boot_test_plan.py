"""What has to be done for one try to boot a backup now: a restore that nobody reaches, its guest, and then all goes.

Called by the loop of tests. Pure. All that is made belongs to the restore, and the restore to the test: whatever
becomes of the controller, who deletes the test deletes all of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from kvedge.controller.backups.errand_status import plan_in_time, write_status
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, SnapshotPlan, Told
from kvedge.resources.meta import ObjectMeta, condition, owner_reference
from kvedge.resources.types.protection.backup_tests import DEFAULT_SECONDS, BackupTest
from kvedge.resources.types.protection.backups import BackupRestore, BackupRestoreSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.durations import parse_duration
from kvedge.runtime.clock import rfc3339, seconds_since

LOOK_SECONDS: Final = 5.0
_DEADLINE_SECONDS: Final = 4 * 3600.0
_LONGEST: Final = 1000


class BootView(Struct, frozen=True):
    """One test, its restore, and the guest that it has made; `refusal` is why the server did not take the restore."""

    test: BackupTest
    restore: BackupRestore | None = None
    vmi: VirtualMachineInstance | None = None
    refusal: str = ""


def restore_name(test: BackupTest) -> str:
    """The restore, and the VM, of a test."""
    return f"backup-test-{test.metadata.uid}"


def plan_boot_test(view: BootView, now: datetime) -> SnapshotPlan:
    """The next steps."""
    test, restore = view.test, view.restore
    if test.metadata.deletion_timestamp is not None:
        return SnapshotPlan()
    if test.is_final:
        gone = restore is not None and restore.metadata.deletion_timestamp is None and _is_ours(test, restore)
        return SnapshotPlan((Delete(restore),) if gone and restore is not None else ())
    seconds = parse_duration(test.spec.deadline) if test.spec.deadline else _DEADLINE_SECONDS
    return plan_in_time(test, seconds, now, lambda: _plan(view, now), lambda why: _end(view, now, "Failed", why))


def _plan(view: BootView, now: datetime) -> SnapshotPlan:
    test, restore = view.test, view.restore
    if view.refusal:
        return _go_on(view, now, "Pending", view.refusal)
    if restore is None:
        if test.status.restore_name:
            return _end(view, now, "Failed", "its restore was deleted")
        name = restore_name(test)
        writes = write_status(view.test, now, phase="Restoring", restore_name=name)
        return SnapshotPlan((Create(_make_restore(test, name)), *writes), (), LOOK_SECONDS)
    if not _is_ours(test, restore):
        return _end(view, now, "Failed", f"BackupRestore {restore.metadata.name} exists and is none of this test's")
    if restore.status.phase == "Failed":
        return _end(view, now, "Failed", f"it cannot be restored: {restore.status.message}")
    if restore.status.phase != "Succeeded":
        said = restore.status.message or restore.status.progress
        return _go_on(view, now, "Restoring", said, backup_id=restore.status.backup_id)
    return _plan_boot(view, now)


def _plan_boot(view: BootView, now: datetime) -> SnapshotPlan:
    test, vmi = view.test, view.vmi
    if vmi is None:
        return _go_on(view, now, "Booting", "the VM has not been started yet", restore=view.restore)
    if vmi.is_final:
        return _end(view, now, "Failed", f"the guest has ended: {vmi.status.reason or vmi.status.phase}")
    agent = condition(vmi.status.conditions, "AgentConnected")
    if agent is not None and agent.status == "True":
        return _end(view, now, "Succeeded", "the guest has booted, and its agent answers", agent_connected=True)
    paused = condition(vmi.status.conditions, "Paused")
    if paused is not None and paused.status == "True":
        return _end(view, now, "Failed", f"the guest stands still: {paused.message or paused.reason}")
    since = next(
        (each.phase_transition_timestamp for each in vmi.status.phase_transition_timestamps if each.phase == "Running"),
        None,
    )
    ran = seconds_since(since, now) or 0.0
    wanted = float(test.spec.seconds or DEFAULT_SECONDS)
    if vmi.status.phase != "Running":
        return _go_on(view, now, "Booting", f"the guest is {vmi.status.phase or 'Pending'}", restore=view.restore)
    if ran < wanted:
        return _go_on(view, now, "Booting", "the guest runs; its agent does not answer yet", restore=view.restore)
    if test.spec.require_agent:
        return _end(view, now, "Failed", f"the guest has run for {wanted:g} s, and its agent does not answer")
    text = f"the guest has run for {wanted:g} s; no agent answers, so that this is all that is known"
    return _end(view, now, "Succeeded", text, agent_connected=False)


def _make_restore(test: BackupTest, name: str) -> BackupRestore:
    spec = test.spec
    return BackupRestore(
        metadata=ObjectMeta(name=name, namespace=test.metadata.namespace, owner_references=[owner_reference(test)]),
        spec=BackupRestoreSpec(
            repository_name=spec.repository_name,
            backup_id=spec.backup_id,
            vm_name=spec.vm_name,
            vm_namespace=spec.vm_namespace,
            target_name=name,
            storage_class_name=spec.storage_class_name,
            isolated=True,
        ),
    )


def _is_ours(test: BackupTest, restore: BackupRestore) -> bool:
    owner = restore.metadata.controller_reference()
    return owner is not None and owner.uid == test.metadata.uid


def _go_on(
    view: BootView, now: datetime, phase: str, message: str, restore: BackupRestore | None = None, **changed: object
) -> SnapshotPlan:
    if restore is not None:
        changed["backup_id"] = restore.status.backup_id
    return SnapshotPlan(
        tuple(write_status(view.test, now, phase=phase, message=message[:_LONGEST], **changed)), (), LOOK_SECONDS
    )


def _end(view: BootView, now: datetime, phase: str, message: str, **changed: object) -> SnapshotPlan:
    well = phase == "Succeeded"
    told = Told("Normal" if well else "Warning", "BackupTested" if well else "BackupTestFailed", message)
    if view.restore is not None and view.restore.status.backup_id:
        changed["backup_id"] = view.restore.status.backup_id
    ended = {"phase": phase, "message": message[:_LONGEST], "completion_time": rfc3339(now)}
    return SnapshotPlan(tuple(write_status(view.test, now, **ended, **changed)), (told,))
