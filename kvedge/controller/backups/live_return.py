"""What has to be done for a backup whose VM starts at once: a worker serves its disks, and brings them back meanwhile.

Called by the plan of restores. Pure. The VM is made when the worker says that it is ready. From then on the claims are
the VM's, and the restore goes on until the VM is deleted, or each disk is there and is used without the worker: after a
worker that ends before another one comes, however often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from kvedge.controller.backups.errand_status import write_status
from kvedge.controller.backups.worker_pods import has_ended, has_succeeded, outcome_of, why_waiting
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.snapshot_names import RETURN_FINALIZER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import LiveState
from kvedge.resources.types.protection.backups import BackupRestore, RestoredVolume
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContentSpec
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import rfc3339

# A guest stands meanwhile.
LOOK_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 3.0
# restic has the index of the repository in memory, once for each disk.
_MOST_DISKS: Final = 8


def check_live(content: VirtualMachineSnapshotContentSpec, volumes: Sequence[RestoredVolume]) -> None:
    """Whether a VM can start from its backup.

    Raises:
        ValueError: with what is in the way.
    """
    if found := next(_obstacles(content, volumes), ""):
        raise ValueError(f"{found}: restore it without spec.live")


def _obstacles(content: VirtualMachineSnapshotContentSpec, volumes: Sequence[RestoredVolume]) -> Iterator[str]:
    if len(volumes) > _MOST_DISKS:
        yield f"it has {len(volumes)} disks, of which {_MOST_DISKS} can come back while the VM runs"
    claims = {each.volume_name: each.persistent_volume_claim.spec for each in content.volume_backups}
    guest = _guest_of(content)
    disks = {str(each.get("name")): each for each in guest.get("domain", {}).get("devices", {}).get("disks") or ()}
    sources = {str(each.get("name")): each for each in guest.get("volumes") or ()}
    for volume in volumes:
        name, claim = volume.volume_name, claims[volume.volume_name]
        disk = disks.get(name)
        modes = claim.get("accessModes") or ["ReadWriteOnce"]
        if name == STATE_VOLUME:
            yield "it has the state of a TPM or of UEFI firmware, all of which has to be there before its guest starts"
            continue
        if claim.get("volumeMode") == "Block":
            yield f"volume {name} has a claim of mode Block, which cannot tell what of it is there"
        if modes != ["ReadWriteOnce"]:
            yield f"volume {name} has a claim {', '.join(modes)}: guest and worker must be on one node, ReadWriteOnce"
        if disk is None or {"cdrom", "lun"} & disk.keys():
            yield f"volume {name} is no disk of the guest"
        elif disk.get("errorPolicy") not in (None, "", "stop"):
            yield f"disk {name} has the errorPolicy {disk['errorPolicy']}: its guest has to stand without its worker"
        elif disk.get("shareable"):
            yield f"disk {name} is shareable"
        for source in sources.get(name, {}).values():
            if isinstance(source, dict) and source.get("hotpluggable"):
                yield f"volume {name} is hotpluggable, and is plugged into a VM that runs already"


def _guest_of(content: VirtualMachineSnapshotContentSpec) -> JsonObject:
    found: Any = content.source.virtual_machine
    for name in ("spec", "template", "spec"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def is_done(restore: BackupRestore, worker: Pod | None) -> bool:
    """Whether the disks need no worker any more."""
    return not restore.spec.live or (worker is not None and has_ended(worker) and has_succeeded(worker))


def hold_restore(restore: BackupRestore) -> list[SnapshotAction]:
    """A restore whose VM needs its worker does not go."""
    held = restore.metadata.finalizers
    if RETURN_FINALIZER in held:
        return []
    return [Patch(restore, {"metadata": {"finalizers": [*held, RETURN_FINALIZER]}})]


def release_restore(restore: BackupRestore) -> list[SnapshotAction]:
    """Nobody needs it any more."""
    held = restore.metadata.finalizers
    if RETURN_FINALIZER not in held:
        return []
    return [Patch(restore, {"metadata": {"finalizers": [each for each in held if each != RETURN_FINALIZER]}})]


def follow_guest(
    restore: BackupRestore, worker: Pod, state: LiveState | None, progress: str, now: datetime
) -> SnapshotPlan:
    """What the state of a worker asks for whose disks a VM uses."""
    if worker.metadata.deletion_timestamp is not None:
        return SnapshotPlan((), (), 1.0)
    if has_ended(worker):
        outcome = outcome_of(worker)
        text = f"the worker that serves the disks ended at {rfc3339(now)}, and is made anew: {outcome.message}"
        writes = write_status(restore, now, message=text, attempt_time=rfc3339(now))
        return SnapshotPlan((*writes, Delete(worker)), (Told("Warning", "RestoreAttemptFailed", outcome.message),), 1.0)
    text = _describe(worker, state)
    shown = progress or restore.status.progress
    writes = write_status(restore, now, phase="Running", progress=shown, message=text)
    return SnapshotPlan(tuple(writes), (), LOOK_SECONDS)


def count_pause(restore: BackupRestore, now: datetime) -> float:
    """For how long no other worker is made: a guest waits for it, and one that ends at once is not made in a circle."""
    failed_at = restore.status.attempt_time
    return _PAUSE_SECONDS - (now - datetime.fromisoformat(failed_at)).total_seconds() if failed_at else 0.0


def _describe(worker: Pod, state: LiveState | None) -> str:
    if worker.status.phase != "Running":
        return why_waiting(worker) or "the worker that serves the disks starts"
    if state is None or not state.ready:
        return "the worker that serves the disks begins"
    if state.message:
        return f"the VM stands where it needs what is not there yet: {state.message}"
    if state.complete:
        return "all of it is there; the VM reads its disks without the worker when it is stopped and started next"
    return "the VM runs from its backup, and its disks are copied behind"


def start_at_once(spec: JsonObject) -> None:
    """Have the VM run, by the strategy that it had where that is one to run."""
    if "running" in spec:
        spec["running"] = True
    elif spec.get("runStrategy") != "RerunOnFailure":
        spec["runStrategy"] = "Always"


def make_vm_now(vm: VirtualMachine) -> SnapshotPlan:
    """The VM, whose disks a worker serves."""
    name = vm.metadata.name
    return SnapshotPlan((Create(vm),), (Told("Normal", "RunsFromBackup", f"VM {name} starts from its backup"),))
