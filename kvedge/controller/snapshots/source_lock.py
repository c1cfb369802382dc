"""Whether a snapshot may begin, and the marks by which a VM stays as it is until the copies are complete.

Called by `snapshot_plan`. Pure. One operation at a time has a VM: the others wait, and say for which one.
"""

from __future__ import annotations

from kvedge.controller.snapshots.driver_snapshots import find_class_doubt
from kvedge.controller.snapshots.live_copies import find_live_obstacle
from kvedge.controller.snapshots.snapshot_actions import Patch
from kvedge.controller.snapshots.snapshot_view import SnapshotView
from kvedge.controller.snapshots.volume_copies import kept_claims
from kvedge.resources.disks.claim_facts import is_populated
from kvedge.resources.disks.memory_dumps import IN_PROGRESS
from kvedge.resources.disks.snapshot_names import COMES_BACK, SOURCE_FINALIZER
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


def find_obstacle(view: SnapshotView, vm: VirtualMachine) -> str:
    """Why the snapshot cannot begin yet, to follow on "Source not locked"; empty when it can."""
    name = view.snapshot.metadata.name
    source = f"source {vm.metadata.namespace}/{vm.metadata.name}"
    if vm.metadata.deletion_timestamp is not None:
        return f"{source} is being deleted"
    if vm.status.snapshot_in_progress not in (None, "", name):
        return f'snapshot "{vm.status.snapshot_in_progress}" in progress'
    if vm.status.restore_in_progress:
        return f'restore "{vm.status.restore_in_progress}" in progress'
    dump = vm.status.memory_dump_request
    if dump is not None and dump.phase == IN_PROGRESS:
        return f"{source} has its memory dumped to claim {dump.claim_name}"
    moving = vm.status.volume_update_state
    if moving is not None and moving.volume_migration_state is not None:
        return (
            f"{source} has volumes that are exchanged, or that are incomplete: see its condition ManualRecoveryRequired"
        )
    kept = kept_claims(vm, view.vmi, view.claims)
    for volume, claim in kept.items():
        if fault := _find_fault(view.claims.get(claim)):
            return f"{source} volume {fault}: {volume}"
    if view.vmi is not None and runs(view.vmi):
        obstacle = find_live_obstacle(vm, view.vmi)
        if obstacle:
            return f"{source} {obstacle}"
    elif view.pods:
        return f"{source} is offline but {len(view.pods)} pods using PVCs [{' '.join(view.pods)}]"
    return find_class_doubt(view.snapshot, set(kept.values()), view.vmi, view.classes)


def runs(vmi: VirtualMachineInstance | None) -> bool:
    """Whether a run has not ended: its guest may write."""
    return vmi is not None and not vmi.is_final


def holds_lock(snapshot: VirtualMachineSnapshot, vm: VirtualMachine | None) -> bool:
    """Whether the VM waits for this very snapshot."""
    if vm is None or vm.status.snapshot_in_progress != snapshot.metadata.name:
        return False
    return snapshot.status.source_uid in (None, "", vm.metadata.uid)


def lock(snapshot: VirtualMachineSnapshot, vm: VirtualMachine) -> Patch | None:
    """The next write that locks the VM; None when it is locked.

    The status names the snapshot before the VM has the finalizer, and as long as it has that: a finalizer that nobody
    answers for would keep the VM for ever.
    """
    if vm.status.snapshot_in_progress != snapshot.metadata.name:
        return Patch(vm, {"status": {"snapshotInProgress": snapshot.metadata.name}}, "status")
    if SOURCE_FINALIZER not in vm.metadata.finalizers:
        return Patch(vm, {"metadata": {"finalizers": [*vm.metadata.finalizers, SOURCE_FINALIZER]}})
    return None


def unlock(name: str, vm: VirtualMachine | None) -> Patch | None:
    """The next write that lets go of a VM that a snapshot of this name has locked; None when there is none."""
    if vm is None or vm.status.snapshot_in_progress != name:
        return None
    if SOURCE_FINALIZER in vm.metadata.finalizers:
        left = [each for each in vm.metadata.finalizers if each != SOURCE_FINALIZER]
        return Patch(vm, {"metadata": {"finalizers": left}})
    return Patch(vm, {"status": {"snapshotInProgress": None}}, "status")


def _find_fault(claim: PersistentVolumeClaim | None) -> str:
    if claim is None:
        return "doesnt exist"
    if claim.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if claim.status.phase != "Bound":
        return "not bound"
    if not is_populated(claim):
        return "not populated"
    if not claim.spec.storage_class_name:
        return "has no StorageClass, which would make the claim of its copy"
    if COMES_BACK in claim.metadata.annotations:
        return "still comes back from its backup, or is used by a VM that was started before all of it was there"
    return ""
