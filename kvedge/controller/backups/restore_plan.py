"""What has to be done for one backup on its way back now: its record is read, claims are made and filled, then the VM.

Called by the loop of restores. Pure. The VM is made last, when all its disks are complete; until then what was made
belongs to the restore and goes with it. Where disks come back alone no VM is made, and each is anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from kvedge.controller.backups.errand_status import write_status
from kvedge.controller.backups.live_return import (
    check_live,
    count_pause,
    follow_guest,
    hold_restore,
    is_done,
    make_vm_now,
    release_restore,
)
from kvedge.controller.backups.returned_vm import make_claim, make_vm, plan_volumes
from kvedge.controller.backups.tpm_twins import holds_tpm
from kvedge.controller.backups.worker_pods import (
    MOST_ATTEMPTS,
    count_seconds_to_wait,
    has_ended,
    has_succeeded,
    job_of,
    outcome_of,
    repository_name,
    why_waiting,
    worker_pod,
)
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.resources.codec import DecodeError, JsonObject, decode, encode
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.snapshot_names import COMES_BACK, RETURNED_BY
from kvedge.resources.meta import owner_reference
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import BackupJob, BackupRecord, BackupVolume, LiveState
from kvedge.resources.types.protection.backups import (
    BackupRepository,
    BackupRestore,
)
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContentSpec
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import rfc3339

LOOK_SECONDS: Final = 5.0
# Somebody waits for it, and it is short.
_READING_SECONDS: Final = 1.0
# As for snapshots. The VM that tests a backup keeps it: it is cut off from all others, and goes at once.
_STATE_LEFT_OUT: Final = (
    "The state of TPM and UEFI firmware is left out: VM {} has this TPM, and two VMs with one TPM pass for one another;"
    " this one starts with a new TPM, and a guest that has sealed its keys in the old one needs its recovery key. To"
    " have the state, delete that VM, and restore the backup once more"
)


class RestoreView(Struct, frozen=True):
    """All that the plan judges; `record` is what the reading worker has just handed out."""

    restore: BackupRestore
    repository: BackupRepository | None
    vm: VirtualMachine | None
    claims: Mapping[str, PersistentVolumeClaim]
    reader: Pod | None
    worker: Pod | None
    cluster: ClusterConfig
    record: BackupRecord | None = None
    token: str = ""
    refusal: str = ""
    progress: str = ""
    # A task that has the repository for itself.
    busy: str = ""
    # What a worker says that serves disks.
    live: LiveState | None = None
    # Another VM that is there and has the TPM of the backup's VM, or is to have it.
    twin: str = ""


def plan_restore(view: RestoreView, now: datetime) -> SnapshotPlan:
    """The next steps."""
    restore = view.restore
    is_used = view.vm is not None or (restore.runs and bool(_kept_claims(view)))
    is_needed = bool(restore.spec.live) and is_used and not restore.is_final
    if restore.metadata.deletion_timestamp is not None and not is_needed:
        return SnapshotPlan(tuple(release_restore(restore)))
    if restore.is_final:
        return SnapshotPlan((*_clean_up(view), *release_restore(restore)))
    if restore.spec.live and _is_bereft(view):
        return _fail(view, now, f"VM {restore.target} was deleted, and its disks go with it")
    if (
        view.vm is not None
        and not restore.runs
        and view.vm.metadata.annotations.get(RETURNED_BY) != restore.metadata.uid
    ):
        return _fail(view, now, f"VM {restore.target} exists: delete it, or set spec.targetName to another name")
    if restore.spec.live and restore.runs and is_done(restore, view.worker):
        return _end_live(view, now)
    if view.refusal:
        return _wait(view, now, view.refusal)
    if view.repository is None:
        return _wait(view, now, f"BackupRepository {restore.spec.repository_name} does not exist")
    if restore.spec.live and restore.runs:
        return _serve_on(view, view.repository, now)
    if restore.status.content is None:
        return _plan_reading(view, view.repository, now)
    try:
        content = decode(VirtualMachineSnapshotContentSpec, restore.status.content)
        vm = None if restore.spec.volumes else make_vm(restore, content, restore.status.volumes)
    except DecodeError as error:
        return _fail(view, now, f"the VM in the backup cannot be read: {error}")
    if view.vm is None and (lost := _find_lost(view)):
        return _fail(view, now, f"claim {lost} was deleted while it was filled: restore the backup once more")
    made = [make_claim(restore, content, volume) for volume in restore.status.volumes]
    missing = [claim for claim in made if claim.metadata.name not in view.claims]
    if view.vm is None and missing:
        return SnapshotPlan(tuple(Create(claim) for claim in missing))
    if foreign := _find_foreign(view):
        return _fail(view, now, f"claim {foreign} exists and is none of this restore's: delete it")
    if vm is not None and not is_done(restore, view.worker):
        return _plan_live(view, view.repository, vm, now)
    if view.vm is None:
        return _plan_filling(view, view.repository, vm, now)
    return _plan_ends(view, view.vm, now)


def _plan_reading(view: RestoreView, repository: BackupRepository, now: datetime) -> SnapshotPlan:
    reader = view.reader
    if view.record is not None:
        return _take_record(view, view.record, now)
    if reader is None:
        return _begin(view, now, "Reading", _job(view, repository, "read"), {}, repository)
    followed = _follow(view, reader, now, "Reading", "reading the record of the backup")
    if followed is None:
        return _fail(view, now, "the worker that reads the backup has ended before it was asked")
    return replace(followed, again_after=None if followed.again_after is None else _READING_SECONDS)


def _take_record(view: RestoreView, record: BackupRecord, now: datetime) -> SnapshotPlan:
    restore = view.restore
    try:
        content = decode(VirtualMachineSnapshotContentSpec, record.content)
        without = bool(view.twin) and not restore.spec.isolated and not restore.spec.volumes and holds_tpm(content)
        volumes = plan_volumes(restore, content, record, state=not without)
        if not restore.spec.volumes:
            make_vm(restore, content, volumes)
        if restore.spec.live:
            # Of all that it has: what is left out is no reason to start it with an empty TPM unasked.
            check_live(content, plan_volumes(restore, content, record))
    except (DecodeError, ValueError) as error:
        return _fail(view, now, f"the record of the backup cannot be used: {error}")
    actions = write_status(
        view.restore,
        now,
        phase="Restoring",
        message="",
        backup_id=record.id,
        volumes=volumes,
        content=record.content,
        attempts=0,
    )
    told = (Told("Warning", "StateLeftOut", _STATE_LEFT_OUT.format(view.twin)),) if without else ()
    return SnapshotPlan((*actions, *([Delete(view.reader)] if view.reader is not None else [])), told)


def _plan_filling(
    view: RestoreView, repository: BackupRepository, vm: VirtualMachine | None, now: datetime
) -> SnapshotPlan:
    volumes = view.restore.status.volumes
    if volumes and view.worker is None:
        claims = {
            f"v{number}": (each.claim_name, view.claims[each.claim_name].is_block)
            for number, each in enumerate(volumes)
        }
        return _begin(view, now, "Restoring", _job(view, repository, "restore"), claims, repository)
    if view.worker is not None:
        followed = _follow(view, view.worker, now, "Restoring", "")
        if followed is not None:
            return followed
    # The disks are complete: from here on they are nobody's to delete, and then the VM's.
    freed = [_own(claim, []) for claim in view.claims.values() if claim.metadata.owner_references]
    if vm is None:
        names = ", ".join(each.claim_name for each in volumes)
        told = Told("Normal", "BackupRestored", f"backup {view.restore.status.backup_id} is in {names}")
        return SnapshotPlan((*freed, *_succeed(view, now)), (told,))
    return SnapshotPlan((*freed, Create(vm)))


def _plan_live(view: RestoreView, repository: BackupRepository, vm: VirtualMachine, now: datetime) -> SnapshotPlan:
    restore, worker = view.restore, view.worker
    if held := hold_restore(restore):
        return SnapshotPlan(tuple(held))
    if view.vm is not None:
        # The claims first: they say whose VM it is from now on.
        owned = [_own(claim, [encode(owner_reference(view.vm))]) for claim in view.claims.values()]
        return SnapshotPlan((*owned, *write_status(restore, now, phase="Running")))
    if worker is None:
        return _begin(view, now, "Restoring", _job(view, repository, "serve"), _find_served(view), repository)
    if view.live is not None and view.live.ready:
        return make_vm_now(vm)
    followed = _follow(view, worker, now, "Restoring", "the worker that serves the disks begins")
    return followed if followed is not None else SnapshotPlan((), (), 1.0)


def _serve_on(view: RestoreView, repository: BackupRepository, now: datetime) -> SnapshotPlan:
    """A VM uses the disks: one worker after the other serves those that there are, whatever else has come to be."""
    restore = view.restore
    if held := hold_restore(restore):
        return SnapshotPlan(tuple(held))
    if view.worker is not None:
        return follow_guest(restore, view.worker, view.live, view.progress, now)
    if (pause := count_pause(restore, now)) > 0:
        return SnapshotPlan((), (), pause)
    if view.busy:
        return _wait(view, now, f"task {view.busy} has the repository")
    job = _job(view, repository, "serve")
    return SnapshotPlan((Create(worker_pod(restore, job, repository, _find_served(view), view.cluster)),))


def _find_served(view: RestoreView) -> dict[str, tuple[str, bool]]:
    """The claims of a worker that serves disks; one that somebody has deleted is left out."""
    kept = {claim.metadata.name for claim in _kept_claims(view)}
    volumes = enumerate(view.restore.status.volumes)
    return {f"v{number}": (each.claim_name, False) for number, each in volumes if each.claim_name in kept}


def _plan_ends(view: RestoreView, vm: VirtualMachine, now: datetime) -> SnapshotPlan:
    owned = [_own(claim, [encode(owner_reference(vm))]) for claim in view.claims.values() if not _has_owner(claim, vm)]
    if owned:
        return SnapshotPlan(tuple(owned))
    return _tell_end(view, now)


def _end_live(view: RestoreView, now: datetime) -> SnapshotPlan:
    """The disks are like any others, and have been their VM's all the time; one that was deleted is not made again."""
    marked = [claim for claim in _kept_claims(view) if COMES_BACK in claim.metadata.annotations]
    if marked:
        return SnapshotPlan(tuple(Patch(claim, {"metadata": {"annotations": {COMES_BACK: None}}}) for claim in marked))
    return _tell_end(view, now)


def _tell_end(view: RestoreView, now: datetime) -> SnapshotPlan:
    text = f"VM {view.restore.target} has the disks of backup {view.restore.status.backup_id}"
    return SnapshotPlan(tuple(_succeed(view, now)), (Told("Normal", "BackupRestored", text),))


def _succeed(view: RestoreView, now: datetime) -> list[SnapshotAction]:
    status = view.restore.status
    brought = {each.volume_name for each in status.volumes}
    backups = (status.content or {}).get("volumeBackups") or ()
    is_left_out = not view.restore.spec.volumes and STATE_VOLUME not in brought
    is_left_out = is_left_out and any(each.get("volumeName") == STATE_VOLUME for each in backups)
    message = "the state of TPM and UEFI firmware was left out: the VM has a new TPM" if is_left_out else ""
    return write_status(
        view.restore,
        now,
        phase="Succeeded",
        completion_time=rfc3339(now),
        progress="100.00%",
        message=message,
        content=None,
    )


def _begin(
    view: RestoreView,
    now: datetime,
    phase: str,
    job: BackupJob,
    claims: dict[str, tuple[str, bool]],
    repository: BackupRepository,
) -> SnapshotPlan:
    status = view.restore.status
    if status.attempts >= MOST_ATTEMPTS:
        return _fail(view, now, status.message or "its workers were deleted again and again")
    if (wait := count_seconds_to_wait(status.attempts, status.attempt_time, now)) > 0:
        return SnapshotPlan((), (), wait)
    if view.busy:
        return _wait(view, now, f"task {view.busy} has the repository")
    pod = worker_pod(view.restore, job, repository, claims, view.cluster)
    return SnapshotPlan((*write_status(view.restore, now, phase=phase, attempts=status.attempts + 1), Create(pod)))


def _follow(view: RestoreView, worker: Pod, now: datetime, phase: str, message: str) -> SnapshotPlan | None:
    """What a worker's state asks for; None when it has done its errand."""
    if worker.metadata.deletion_timestamp is not None:
        return SnapshotPlan((), (), 1.0)
    if not has_ended(worker):
        text = message if worker.status.phase == "Running" else why_waiting(worker) or message
        progress = view.progress or view.restore.status.progress
        return SnapshotPlan(
            tuple(write_status(view.restore, now, phase=phase, progress=progress, message=text)), (), LOOK_SECONDS
        )
    if has_succeeded(worker):
        return None
    outcome, attempts = outcome_of(worker), view.restore.status.attempts
    if outcome.fatal or attempts >= MOST_ATTEMPTS:
        return _fail(view, now, outcome.message)
    text = f"attempt {attempts} of {MOST_ATTEMPTS} failed at {rfc3339(now)}: {outcome.message}"
    told = Told("Warning", "RestoreAttemptFailed", outcome.message)
    # Waiting for somebody else is no try: another box may prune for hours.
    counted = attempts - 1 if outcome.locked else attempts
    writes = write_status(view.restore, now, message=text, attempts=counted, attempt_time=rfc3339(now))
    return SnapshotPlan((*writes, Delete(worker)), (told,), 1.0)


def _job(view: RestoreView, repository: BackupRepository, mode: Literal["read", "restore", "serve"]) -> BackupJob:
    restore = view.restore
    volumes = []
    if mode != "read":
        kept = {claim.metadata.name for claim in _kept_claims(view)} if mode == "serve" else view.claims
        for number, each in enumerate(restore.status.volumes):
            if each.claim_name not in kept:
                continue
            claim = view.claims[each.claim_name]
            volumes.append(
                BackupVolume(
                    name=each.volume_name,
                    place=f"v{number}",
                    block=claim.is_block,
                    size=each.size,
                    uid=claim.metadata.uid,
                )
            )
    return BackupJob(
        mode=mode,
        repository=repository_name(repository),
        backup_id=restore.status.backup_id or restore.spec.backup_id,
        namespace=restore.spec.vm_namespace or restore.metadata.namespace,
        vm=restore.spec.vm_name,
        volumes=volumes,
        token=view.token,
    )


def _find_foreign(view: RestoreView) -> str:
    """A claim of the name of one of ours that is not ours; empty for none."""
    for claim in view.claims.values():
        if claim.metadata.annotations.get(RETURNED_BY) != view.restore.metadata.uid:
            return claim.metadata.name
    return ""


def _find_lost(view: RestoreView) -> str:
    """A claim that goes, or is not the one any more that the worker was given; empty for none.

    One that is made anew under its name is empty, and the worker may have ended well.
    """
    for claim in view.claims.values():
        if claim.metadata.deletion_timestamp is not None:
            return claim.metadata.name
    if view.worker is None:
        return ""
    job = job_of(view.worker)
    given = {} if job is None else {each.name: each.uid for each in job.volumes}
    for each in view.restore.status.volumes:
        there = view.claims.get(each.claim_name)
        if there is None or there.metadata.uid != given.get(each.volume_name):
            return each.claim_name
    return ""


def _own(claim: PersistentVolumeClaim, owners: Sequence[JsonObject]) -> Patch:
    return Patch(claim, {"metadata": {"ownerReferences": list(owners)}})


def _has_owner(claim: PersistentVolumeClaim, vm: VirtualMachine) -> bool:
    return any(owner.uid == vm.metadata.uid for owner in claim.metadata.owner_references)


def _is_bereft(view: RestoreView) -> bool:
    """Whether the VM was there, had its claims, and is gone with them.

    While a claim of one that ran stays, what its guest wrote is there and nowhere else, whoever has deleted the VM
    without it or made another one of the name: it is served on.
    """
    if view.restore.runs:
        return not _kept_claims(view)
    owners = (owner for claim in view.claims.values() for owner in claim.metadata.owner_references)
    return view.vm is None and any(owner.kind == VirtualMachine.KIND.kind for owner in owners)


def _kept_claims(view: RestoreView) -> list[PersistentVolumeClaim]:
    """The claims of the restore that are there and do not go."""
    uid = view.restore.metadata.uid
    ours = (claim for claim in view.claims.values() if claim.metadata.annotations.get(RETURNED_BY) == uid)
    return [claim for claim in ours if claim.metadata.deletion_timestamp is None]


def _wait(view: RestoreView, now: datetime, message: str) -> SnapshotPlan:
    phase = view.restore.status.phase or "Pending"
    return SnapshotPlan(tuple(write_status(view.restore, now, phase=phase, message=message)), (), LOOK_SECONDS)


def _fail(view: RestoreView, now: datetime, message: str) -> SnapshotPlan:
    told = Told("Warning", "BackupRestoreFailed", message)
    actions = write_status(view.restore, now, phase="Failed", message=message, completion_time=rfc3339(now))
    return SnapshotPlan(tuple(actions), (told,))


def _clean_up(view: RestoreView) -> list[SnapshotAction]:
    """Its workers; the claims of one that failed go with the restore, whose they are."""
    there = (view.reader, view.worker)
    return [Delete(each) for each in there if each is not None and each.metadata.deletion_timestamp is None]
