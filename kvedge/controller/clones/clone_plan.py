"""What has to be done about one clone now: its snapshot, the restore into the new VM, what is cleaned up, its status.

Called by `clone_loop`. Pure. The snapshot and the restore are the clone's own: they go with it, and once the new VM's
claims are bound. A clone that has failed leaves nothing behind but its word.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.clones.clone_patches import TooManyKeys, make_patches, unknown_interfaces
from kvedge.controller.clones.clone_report import describe_progress, fail, go_on, succeed, wait_for_source
from kvedge.controller.clones.clone_view import CloneView
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.clone_names import target_name, temporary_restore, temporary_snapshot
from kvedge.resources.disks.volume_facts import lasting_claim
from kvedge.resources.meta import ObjectMeta, condition, owner_reference
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import (
    TypedReference,
    VirtualMachineRestore,
    VirtualMachineRestoreSpec,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VirtualMachineSnapshotSpec,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.pattern_reader import PatternError
from kvedge.runtime.clock import rfc3339

LOOK_SECONDS: Final = 5.0
_BOUND: Final = "Bound"
_VM: Final = VirtualMachine.KIND


def plan_clone(view: CloneView, now: datetime) -> SnapshotPlan:
    """What to do. A clone that is deleted takes what it owns along, by itself."""
    clone = view.clone
    if clone.metadata.deletion_timestamp is not None:
        return SnapshotPlan()
    match clone.status.phase:
        case "" | "SnapshotInProgress":
            return _plan_snapshot(view, now)
        case "RestoreInProgress":
            return _plan_restore(view, now)
        case "CreatingTargetVM":
            return _plan_target(view, now)
        case "Succeeded":
            return _plan_end(view)
        case "Failed":
            return _clean_up(view)
    return SnapshotPlan()


def of_vm(clone: VirtualMachineClone) -> bool:
    """Whether a clone takes a snapshot of its own."""
    return clone.spec.source is not None and clone.spec.source.kind == _VM.kind


def target_of(clone: VirtualMachineClone) -> str:
    """The name of the new VM. Admission has written one; without it there is one all the same, and always the same."""
    target, source = clone.spec.target, clone.spec.source
    if target is not None and target.name:
        return target.name
    return target_name("" if source is None else source.name, clone.metadata.uid)


def _plan_snapshot(view: CloneView, now: datetime) -> SnapshotPlan:
    clone, snapshot = view.clone, view.snapshot
    status, source = clone.status, clone.spec.source
    assert source is not None
    if of_vm(clone):
        if status.snapshot_name is None:
            return _plan_new_snapshot(view, source.name, now)
        if snapshot is None:
            return fail(view, now, "SnapshotDeleted", f"snapshot {status.snapshot_name} does not exist anymore")
        if not _is_own(snapshot, clone):
            return fail(view, now, "SnapshotContentInvalid", f"snapshot {status.snapshot_name} is not the clone's own")
    elif snapshot is None:
        where = f"VirtualMachineSnapshot {clone.metadata.namespace}/{source.name}"
        return wait_for_source(view, now, "SourceDoesNotExist", f"Source doesnt exist: {where}")
    assert snapshot is not None
    named = snapshot.metadata.name
    if snapshot.status.phase == "Failed":
        failure = condition(snapshot.status.conditions, "Failure")
        why = "" if failure is None else f": {failure.reason}"
        return fail(view, now, "SnapshotContentInvalid", f"snapshot {named} failed{why}")
    if snapshot.status.phase == "Succeeded" and not snapshot.status.ready_to_use and snapshot.status.error is not None:
        text = f"snapshot {named} is not usable any more: {snapshot.status.error.message}"
        return fail(view, now, "SnapshotContentInvalid", text)
    if not snapshot.status.ready_to_use or view.content is None:
        words = describe_progress(snapshot.status.conditions)
        message = f"snapshot {named}: {words}" if words else ""
        return go_on(view, now, message=message, again=LOOK_SECONDS, phase="SnapshotInProgress")
    if missing := _not_backed_up(view.content):
        text = "\n".join(f"volume {volume} is not backed up in snapshot {named}" for volume in missing)
        return fail(view, now, "SnapshotContentInvalid", text)
    told = (Told("Normal", "SnapshotReady", f"snapshot {named} for clone {clone.metadata.name} is ready to use"),)
    return go_on(view, now, told=told, phase="RestoreInProgress")


def _plan_new_snapshot(view: CloneView, source: str, now: datetime) -> SnapshotPlan:
    clone, vm = view.clone, view.source
    if vm is None or vm.metadata.deletion_timestamp is not None:
        where = f"VirtualMachine {clone.metadata.namespace}/{source}"
        return wait_for_source(view, now, "SourceDoesNotExist", f"Source doesnt exist: {where}")
    if view.refusal:
        return fail(view, now, "SnapshotContentInvalid", f"the snapshot was refused: {view.refusal}")
    name = temporary_snapshot(clone.metadata.uid)
    made = VirtualMachineSnapshot(
        metadata=ObjectMeta(name=name, namespace=clone.metadata.namespace, owner_references=[owner_reference(clone)]),
        spec=VirtualMachineSnapshotSpec(source=TypedReference(api_group=_VM.group, kind=_VM.kind, name=source)),
    )
    text = f"created snapshot {name} for clone {clone.metadata.name}"
    told = (Told("Normal", "SnapshotCreated", text),)
    actions: tuple[SnapshotAction, ...] = (Create(made),) if view.snapshot is None else ()
    return go_on(view, now, actions, told=told, phase="SnapshotInProgress", snapshot_name=name)


def _plan_restore(view: CloneView, now: datetime) -> SnapshotPlan:
    clone, restore = view.clone, view.restore
    name = clone.status.restore_name
    if name is None:
        return _plan_new_restore(view, now)
    if restore is None or not _is_own(restore, clone):
        return fail(view, now, "RestoreCreationFailed", f"restore {name} does not exist anymore")
    if restore.has_failed:
        failure = condition(restore.status.conditions, "Failure")
        assert failure is not None
        return fail(view, now, "RestoreCreationFailed", f"restore {name} failed: {failure.reason}")
    if not restore.status.complete:
        words = describe_progress(restore.status.conditions)
        return go_on(view, now, message=f"restore {name}: {words}" if words else "", again=LOOK_SECONDS)
    told = (Told("Normal", "RestoreReady", f"restore {name} for clone {clone.metadata.name} is ready to use"),)
    return go_on(view, now, told=told, phase="CreatingTargetVM", target_name=restore.spec.target.name)


def _plan_new_restore(view: CloneView, now: datetime) -> SnapshotPlan:
    clone, snapshot, content = view.clone, view.snapshot, view.content
    if snapshot is None or content is None:
        named = clone.status.snapshot_name or (clone.spec.source.name if clone.spec.source is not None else "")
        return fail(view, now, "SnapshotDeleted", f"snapshot {named} does not exist anymore")
    if view.refusal:
        return fail(view, now, "RestoreCreationFailed", f"the restore was refused: {view.refusal}")
    document = content.spec.source.virtual_machine or {}
    try:
        patches = make_patches(document, clone.spec)
    except (PatternError, TooManyKeys) as error:
        return fail(view, now, "RestoreCreationFailed", f"error generating patches: {error}")
    meta, name = clone.metadata, temporary_restore(clone.metadata.uid)
    made = VirtualMachineRestore(
        metadata=ObjectMeta(name=name, namespace=meta.namespace, owner_references=[owner_reference(clone)]),
        spec=VirtualMachineRestoreSpec(
            target=TypedReference(api_group=_VM.group, kind=_VM.kind, name=target_of(clone)),
            virtual_machine_snapshot_name=snapshot.metadata.name,
            volume_restore_policy=clone.spec.volume_name_policy,
            patches=patches,
        ),
    )
    told = [Told("Normal", "RestoreCreated", f"created restore {name} for clone {meta.name}")]
    if unknown := unknown_interfaces(document, clone.spec):
        text = f"spec.newMacAddresses: the VM has no interface {', '.join(unknown[:10])}"
        told.append(Told("Warning", "UnknownInterface", text))
    actions: tuple[SnapshotAction, ...] = (Create(made),) if view.restore is None else ()
    return go_on(view, now, actions, told=told, restore_name=name)


def _plan_target(view: CloneView, now: datetime) -> SnapshotPlan:
    clone = view.clone
    if view.target is None:
        return SnapshotPlan((Delete(clone),), again_after=LOOK_SECONDS)
    text = f"created target VM {clone.status.target_name} for clone {clone.metadata.name}"
    return succeed(view, now, told=(Told("Normal", "TargetVMCreated", text),), creation_time=rfc3339(now))


def _plan_end(view: CloneView) -> SnapshotPlan:
    """Its VM is there: what it was made with goes once its claims are bound, and the clone goes with the VM."""
    clone, restore = view.clone, view.restore
    if view.target is None:
        return SnapshotPlan((Delete(clone),), again_after=LOOK_SECONDS)
    if clone.status.restore_name is None:
        return SnapshotPlan()
    if restore is not None:
        names = [each.persistent_volume_claim for each in restore.status.restores]
        found = [view.claims.get(name) for name in names]
        if any(each is None or each.status.phase != _BOUND for each in found):
            return SnapshotPlan(again_after=LOOK_SECONDS)
    text = f"all PVC for clone {clone.metadata.name} are bound"
    return _clean_up(view, (Told("Normal", "PVCBound", text),))


def _clean_up(view: CloneView, told: tuple[Told, ...] = ()) -> SnapshotPlan:
    clone, status = view.clone, view.clone.status
    if status.snapshot_name is None and status.restore_name is None:
        return SnapshotPlan()
    made = (view.restore, view.snapshot if of_vm(clone) else None)
    gone: list[SnapshotAction] = [
        Delete(each)
        for each in made
        if each is not None and _is_own(each, clone) and each.metadata.deletion_timestamp is None
    ]
    wanted = msgspec.structs.replace(status, snapshot_name=None, restore_name=None)
    body = merge_difference(encode(status), encode(wanted))
    return SnapshotPlan((*gone, Patch(clone, {"status": body}, "status")), told)


def _is_own(item: VirtualMachineSnapshot | VirtualMachineRestore, clone: VirtualMachineClone) -> bool:
    owner = item.metadata.controller_reference()
    return owner is not None and owner.uid == clone.metadata.uid


def _not_backed_up(content: VirtualMachineSnapshotContent) -> list[str]:
    """The disks that last, and of which the snapshot has nothing but their place in the spec."""
    held = {each.volume_name for each in content.spec.volume_backups if each.volume_snapshot_name is not None}
    vm = decode(VirtualMachine, content.spec.source.virtual_machine or {})
    volumes = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    return [each.name for each in volumes if lasting_claim(each) is not None and each.name not in held]
