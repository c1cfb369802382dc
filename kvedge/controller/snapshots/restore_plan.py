"""What has to be done about one restore now: the VM's lock, the new disks, the exchange, its status.

Called by `restore_loop`. Pure. The VM's spec is exchanged in one write, once all new disks are complete. Until then
everything that was made can go, and the VM has its old disks; the snapshot stays as it is.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.snapshots.in_place_plan import (
    has_begun,
    is_stuck,
    let_old_volumes_go,
    plan_in_place,
    tell_kept,
    undo,
)
from kvedge.controller.snapshots.memory.memory_restore import brings_memory, is_memory_restore, why_without_memory
from kvedge.controller.snapshots.restore_report import (
    LOOK_SECONDS,
    fail_restore,
    report_restore,
    unlock_target,
    wait_for,
)
from kvedge.controller.snapshots.restore_target import find_filling, is_same, judge_snapshot, plan_target
from kvedge.controller.snapshots.restored_vm import (
    IN_PLACE,
    disks_of,
    exchange_body,
    fill_name,
    goes_with_vm,
    is_exchanged,
    is_in_place,
    is_owned,
    is_unpatched,
    make_vm,
    make_volume,
    mark_of,
    owners_with,
    patch_operations,
    plan_volume_restores,
    superseded_disks,
    superseded_state,
)
from kvedge.controller.snapshots.snapshot_actions import (
    Create,
    Delete,
    Patch,
    PatchByOperations,
    SnapshotAction,
    SnapshotPlan,
    Told,
)
from kvedge.controller.snapshots.snapshot_view import RestoreView
from kvedge.controller.snapshots.volume_copies import FAILED, SUCCEEDED, describe_copies, holds_state
from kvedge.resources.codec import encode
from kvedge.resources.data_volume_names import PRE_POPULATED
from kvedge.resources.disks.snapshot_names import LAST_RESTORE, RESTORE_FINALIZER
from kvedge.resources.meta import owner_reference
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContent
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.saved_memory import resume_claim
from kvedge.runtime.clock import rfc3339

# The API server's words; kvedge's own webhooks judge what is said, and say the same the next time.
_REFUSED_BY: Final = re.compile(r'admission webhook "([^"]+)" denied')
_OWN_WEBHOOKS: Final = (".kubevirt.io", ".kvedge.io")
_INITIALIZING: Final = "Initializing VirtualMachineRestore"
_DONE: Final = "Operation complete"
_NO_PLACE: Final = "volumeRestorePolicy InPlace: the VM of the snapshot is not there; restore it under new names"
_STATE_LEFT_OUT: Final = (
    "The state of TPM and UEFI firmware is left out: it goes back into the VM alone that it was taken of; this one"
    " starts with a new TPM, and a guest that has sealed its keys in the old one needs its recovery key"
)
_TAKEN: Final = "restore source and restore target are different but restore target already exists"


def plan_restore(view: RestoreView, now: datetime) -> SnapshotPlan:
    """What to do."""
    restore = view.restore
    meta, status = restore.metadata, restore.status
    is_over = bool(status.complete) or restore.has_failed
    if meta.deletion_timestamp is not None and (is_over or not has_begun(view)):
        return _plan_deletion(view)
    if RESTORE_FINALIZER not in meta.finalizers and meta.deletion_timestamp is None:
        return SnapshotPlan((Patch(restore, {"metadata": {"finalizers": [*meta.finalizers, RESTORE_FINALIZER]}}),))
    if status.complete:
        # Those that a driver fills with the VM's first start are filled after the end.
        return SnapshotPlan((*unlock_target(view), *_seal_volumes(view), *_drop_used_memory(view)))
    if restore.has_failed:
        drops: tuple[SnapshotAction, ...] = (
            *undo(view), *unlock_target(view), *_drop_unpatched(view), *_drop_volumes(view)
        )  # fmt: skip
        return SnapshotPlan(drops, again_after=LOOK_SECONDS if is_unpatched(restore, view.vm) else None)
    if not status.conditions:
        begun = msgspec.structs.replace(status, complete=False)
        return report_restore(view, now, begun, ("True", _INITIALIZING), ("False", _INITIALIZING))
    if is_exchanged(restore, view.vm):
        assert view.vm is not None
        return _plan_end(view, view.vm, now)
    content = view.content
    if has_begun(view):
        return _go_on_in_place(view, content, now)
    fault, waits = judge_snapshot(view)
    if fault:
        return fail_restore(view, now, fault)
    if waits or content is None:
        return wait_for(view, now, waits)
    if is_unpatched(restore, view.vm):
        assert view.vm is not None
        return _plan_patches(view, view.vm, now)
    if view.vm is None and any(owner.kind == VirtualMachine.KIND.kind for owner in meta.owner_references):
        # It was there, and its user has deleted it: it is not made anew.
        return fail_restore(view, now, "the target VM is gone")
    if restore.spec.volume_restore_policy == IN_PLACE and view.vm is None:
        return fail_restore(view, now, _NO_PLACE)
    if view.vm is not None:
        if not is_same(view, view.vm):
            return fail_restore(view, now, _TAKEN)
        held = plan_target(view, view.vm, now)
        if held is not None:
            return held
    if not status.restores and (named := _name_volumes(view, content, now)) is not None:
        return named
    return _plan_volumes(view, content, now)


def _name_volumes(view: RestoreView, content: VirtualMachineSnapshotContent, now: datetime) -> SnapshotPlan | None:
    """Write down what is to be made; None when that is nothing."""
    restore, same = view.restore, view.vm is not None and is_same(view, view.vm)
    # As in KubeVirt no other VM gets it: two VMs with one TPM pass for one another.
    source = (content.spec.source.virtual_machine or {}).get("metadata") or {}
    state = same or source.get("name") == restore.spec.target.name
    volumes = plan_volume_restores(restore, content, memory=brings_memory(restore, content, same=same), state=state)
    if not volumes:
        return None
    named = msgspec.structs.replace(restore.status, restores=volumes)
    why = why_without_memory(restore, content, same=same)
    told = [Told("Normal", "MemoryLeftOut", f"The snapshot's memory is left out: {why}; the VM boots")] if why else []
    if holds_state(content) and not state:
        told.append(Told("Normal", "StateLeftOut", _STATE_LEFT_OUT))
    return report_restore(view, now, named, ("True", "Creating new PVCs"), ("False", "Waiting for new PVCs"), told=told)


def _plan_volumes(view: RestoreView, content: VirtualMachineSnapshotContent, now: datetime) -> SnapshotPlan:
    restore = view.restore
    source = (content.spec.source.virtual_machine or {}).get("metadata") or {}
    made: list[SnapshotAction] = []
    there: dict[str, DataVolume | None] = {}
    for volume in restore.status.restores:
        name = fill_name(restore, volume)
        found = view.volumes.get(name)
        if found is None and is_memory_restore(volume) and not all(_is_complete(each) for each in there.values()):
            # By the times of the files its launcher sees that no disk was written after it.
            continue
        there[name] = found
        if found is not None and found.metadata.annotations.get(LAST_RESTORE) != mark_of(restore):
            return fail_restore(
                view,
                now,
                f"DataVolume {name} of volume {volume.volume_name} exists already: name another one"
                " in spec.volumeRestoreOverrides",
            )
        if found is not None and found.status.phase == FAILED:
            return fail_restore(view, now, f"copy failed: {describe_copies({name: found})}")
        if found is None:
            filling = find_filling(view, content, volume)
            if isinstance(filling, str):
                return fail_restore(view, now, filling)
            made.append(Create(make_volume(restore, volume, filling, view.vm, str(source.get("name", "")))))
    made += _seal_volumes(view)
    if made or not all(name in view.binds_late or _is_complete(each) for name, each in there.items()):
        plan = report_restore(
            view,
            now,
            restore.status,
            ("True", "Creating new PVCs"),
            ("False", "Waiting for new PVCs"),
            message=view.refusal or describe_copies(there),
            again=LOOK_SECONDS if view.refusal else None,
        )
        return SnapshotPlan((*made, *plan.actions), plan.told, plan.again_after)
    return _plan_exchange(view, content, now)


def _seal_volumes(view: RestoreView) -> list[Patch]:
    """Should the claim of a volume that is filled be deleted, it is not filled again without a word."""
    restore = view.restore
    names = [fill_name(restore, each) for each in restore.status.restores]
    return [
        Patch(found, {"metadata": {"annotations": {PRE_POPULATED: name}}})
        for name in names
        if (found := view.volumes.get(name)) is not None
        and found.metadata.annotations.get(LAST_RESTORE) == mark_of(restore)
        and found.status.phase == SUCCEEDED
        and PRE_POPULATED not in found.metadata.annotations
    ]


def _is_complete(volume: DataVolume | None) -> bool:
    return volume is not None and volume.status.phase == SUCCEEDED


def _plan_exchange(view: RestoreView, content: VirtualMachineSnapshotContent, now: datetime) -> SnapshotPlan:
    restore, volumes = view.restore, view.restore.status.restores
    in_place = None if view.vm is None else plan_in_place(view, view.vm, now)
    if in_place is not None:
        return in_place
    if view.vm is None:
        return _try(view, Create(make_vm(restore, volumes, content)), now)
    gone = superseded_disks(view.vm, volumes, content, view.old, view.claims)
    if gone != restore.status.deleted_data_volumes:
        # Written down before: after the exchange the VM names them no more.
        told = msgspec.structs.replace(restore.status, deleted_data_volumes=gone)
        return report_restore(view, now, told, ("True", "Updating target spec"), ("False", "Waiting for target update"))
    return _try(view, Patch(view.vm, exchange_body(restore, volumes, content, view.vm)), now)


def _try(view: RestoreView, write: Create | Patch | PatchByOperations, now: datetime) -> SnapshotPlan:
    """Write the VM until the server takes it: a webhook that refuses it may go, and a quota may get room."""
    if not view.refusal:
        return SnapshotPlan((write,), again_after=LOOK_SECONDS)
    told = wait_for(view, now, f"the VM was refused: {view.refusal}")
    return SnapshotPlan((write, *told.actions), told.told, told.again_after)


def _go_on_in_place(view: RestoreView, content: VirtualMachineSnapshotContent | None, now: datetime) -> SnapshotPlan:
    """There is no way back: also when the restore, the snapshot or the VM goes, each claim gets its new data.

    A restore that is deleted waits for nothing that may never come: it ends, and what is there then is kept.
    """
    vm, leaves = view.vm, view.restore.metadata.deletion_timestamp is not None
    if leaves and is_stuck(view):
        return _leave(view)
    plan = plan_in_place(view, vm or VirtualMachine(), now)
    if plan is not None:
        return plan
    if vm is not None and content is not None and is_same(view, vm):
        return _leave(view) if leaves and view.refusal else _plan_exchange(view, content, now)
    # Those of a VM that is there and not what it was are kept.
    left = let_old_volumes_go(view) if vm is None else ()
    if left:
        return SnapshotPlan(left)
    if leaves:
        return _leave(view)
    what = "snapshot" if vm is not None else "VM"
    text = f"the {what} went meanwhile: the disks are the snapshot's, and the VM's spec is not{tell_kept(view)}"
    return fail_restore(view, now, text)


def _leave(view: RestoreView) -> SnapshotPlan:
    """End a restore that is deleted and has no way back, and tell what is kept.

    In one go: the refusal that it ends for is forgotten with the next write that succeeds.
    """
    if RESTORE_FINALIZER not in view.restore.metadata.finalizers:
        return SnapshotPlan()
    kept = tell_kept(view)
    told = Told("Warning", "VirtualMachineRestoreError", f"The restore was deleted before its end{kept}")
    writes: tuple[SnapshotAction, ...] = (*undo(view), *_drop_volumes(view), *unlock_target(view))
    return SnapshotPlan((*writes, _drop_finalizer(view)), (told,) if kept else ())


def _plan_patches(view: RestoreView, vm: VirtualMachine, now: datetime) -> SnapshotPlan:
    if view.refusal and not _may_pass(view.refusal):
        return fail_restore(view, now, f"spec.patches: {view.refusal}")
    try:
        operations = patch_operations(view.restore)
    except ValueError as error:
        return fail_restore(view, now, f"spec.patches: {error}")
    return _try(view, PatchByOperations(vm, operations), now)


def _may_pass(refusal: str) -> bool:
    """Whether a refusal is that of somebody's webhook, which may go; a patch that does not apply, or that makes a VM
    that cannot be, stays so."""
    webhook = _REFUSED_BY.search(refusal)
    return webhook is not None and not webhook[1].endswith(_OWN_WEBHOOKS)


def _plan_end(view: RestoreView, vm: VirtualMachine, now: datetime) -> SnapshotPlan:
    """The VM is what it was: what remains is the order of things around it."""
    restore, status = view.restore, view.restore.status
    actions: list[SnapshotAction] = []
    if goes_with_vm(restore):
        for volume in status.restores:
            found = None if is_in_place(restore, volume) else view.volumes.get(volume.persistent_volume_claim)
            if found is not None and found.metadata.controller_reference() is None:
                owners = [encode(each) for each in (*found.metadata.owner_references, owner_reference(vm))]
                actions.append(Patch(found, {"metadata": {"ownerReferences": owners}}))
    for name in sorted(set(status.deleted_data_volumes) - disks_of(vm)):
        old = view.old.get(name)
        if old is not None and is_owned(old, vm) and old.metadata.deletion_timestamp is None:
            actions.append(Delete(old))
    actions += let_old_volumes_go(view)
    states = superseded_state(vm, status.deleted_data_volumes, view.claims)
    actions += [Delete(state) for state in states if state.metadata.deletion_timestamp is None]
    if all(owner.uid != vm.metadata.uid for owner in restore.metadata.owner_references):
        actions.append(Patch(restore, {"metadata": {"ownerReferences": owners_with(restore, vm)}}))
    if vm.status.volume_update_state is not None:
        # Claims that were exchanged, and are perhaps incomplete, are the VM's no more: they keep it from no start.
        actions.append(Patch(vm, {"status": {"volumeUpdateState": None}}, "status"))
    if actions:
        return SnapshotPlan(tuple(actions))
    done = msgspec.structs.replace(status, complete=True, restore_time=rfc3339(now))
    text = f"Successfully completed VirtualMachineRestore {restore.metadata.name}"
    told = (Told("Normal", "VirtualMachineRestoreComplete", text),)
    return report_restore(view, now, done, ("False", _DONE), ("True", _DONE), told=told)


def _drop_used_memory(view: RestoreView) -> tuple[Delete, ...]:
    """Memory goes with its claim once the VM has gone on from it, or no more says that it will."""
    memory = next((each for each in view.restore.status.restores if is_memory_restore(each)), None)
    if memory is None or view.vm is None:
        return ()
    name = memory.persistent_volume_claim
    found = view.volumes.get(name)
    is_ours = found is not None and found.metadata.annotations.get(LAST_RESTORE) == mark_of(view.restore)
    if found is None or not is_ours or found.metadata.deletion_timestamp is not None:
        return ()
    return () if resume_claim(view.vm.metadata.annotations) == name else (Delete(found),)


def _plan_deletion(view: RestoreView) -> SnapshotPlan:
    restore = view.restore
    if RESTORE_FINALIZER not in restore.metadata.finalizers:
        return SnapshotPlan()
    is_over = bool(restore.status.complete) or is_exchanged(restore, view.vm)
    dropped: tuple[SnapshotAction, ...] = () if is_over else (*undo(view), *_drop_unpatched(view), *_drop_volumes(view))
    writes: tuple[SnapshotAction, ...] = (*unlock_target(view), *dropped)
    if writes or is_unpatched(restore, view.vm):
        # The disks of a VM that goes are deleted once it is gone.
        return SnapshotPlan(writes, again_after=LOOK_SECONDS)
    return SnapshotPlan((_drop_finalizer(view),))


def _drop_finalizer(view: RestoreView) -> Patch:
    left = [each for each in view.restore.metadata.finalizers if each != RESTORE_FINALIZER]
    return Patch(view.restore, {"metadata": {"finalizers": left}})


def _drop_unpatched(view: RestoreView) -> tuple[Delete, ...]:
    """A VM that this restore has made and could not patch looks like the one that it was taken of: it goes."""
    vm = view.vm
    if vm is None or not is_unpatched(view.restore, vm) or vm.metadata.deletion_timestamp is not None:
        return ()
    return (Delete(vm),)


def _drop_volumes(view: RestoreView) -> tuple[Delete, ...]:
    """The disks of a restore that does not come to its end; those stay that its user has the VM name all the same."""
    mark, named = mark_of(view.restore), disks_of(view.vm)
    return tuple(
        Delete(volume)
        for each in view.restore.status.restores
        if (volume := view.volumes.get(fill_name(view.restore, each))) is not None
        and volume.metadata.annotations.get(LAST_RESTORE) == mark
        and volume.metadata.deletion_timestamp is None
        and volume.metadata.name not in named
        and not is_unpatched(view.restore, view.vm)
    )
