"""Restores into the same claims: a claim of the old name gets the volume that was filled, and the old volume goes.

Called by `restore_plan`, once all new data are complete and while the VM is locked. Pure. Kubernetes renames no claim
and gives a bound one no other volume. So both volumes are told to stay whatever becomes of their claims (`Retain`),
both claims go, and a new claim of the old name is bound to the volume with the new data. At each moment both volumes
keep what they hold; the old one gets its policy back, and goes by it, once the VM is what it was. From the first claim
that is deleted on there is no way back, and all steps are found again by what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kvedge.controller.snapshots.in_place_record import (
    Exchange,
    TooMuchToRecord,
    in_place_volumes,
    make_exchange,
    make_record,
    read_record,
)
from kvedge.controller.snapshots.restore_report import fail_restore, report_restore
from kvedge.controller.snapshots.restored_vm import disks_of, fill_name
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotAction, SnapshotPlan
from kvedge.controller.snapshots.snapshot_view import RestoreView
from kvedge.controller.vm.create_refusal import says_namespace_goes
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.data_volume_names import PRE_POPULATED
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine

RETAIN: Final = "Retain"
# Volumes are not watched, and other programs' controllers bind them.
_LOOK_SECONDS: Final = 1.0
_EXCHANGING: Final = ("True", "Exchanging the volumes of PVCs")
_WAITING: Final = ("False", "Waiting for new PVCs")


def plan_in_place(view: RestoreView, vm: VirtualMachine, now: datetime) -> SnapshotPlan | None:
    """What has to be done until each claim has its new data; None when that is so."""
    if not in_place_volumes(view.restore):
        return None
    exchanges = read_record(view.restore)
    return _plan_exchanges(view, exchanges, now) if exchanges else _plan_record(view, vm, now)


def has_begun(view: RestoreView) -> bool:
    """Whether there is no way back: a claim of before goes, or is gone."""
    return any(_is_left(view, each) for each in read_record(view.restore))


def undo(view: RestoreView) -> tuple[Patch, ...]:
    """What takes back what was done before there is no way back: the volumes' policies.

    A volume whose claim is gone has the only disk of its kind, and stays: its policy would have it erased at once.
    """
    writes: list[Patch] = []
    for each in read_record(view.restore):
        is_left = _is_left(view, each)
        if not is_left or _has_new_data(view, each):
            writes += _give_policy(view, each.new_volume, each.new_policy)
        if not is_left:
            writes += _give_policy(view, each.old_volume, each.old_policy)
    return tuple(writes)


def is_stuck(view: RestoreView) -> bool:
    """Whether a claim can never get its new data: its namespace goes, or the volume with these is gone."""
    open_ = [each for each in read_record(view.restore) if not _has_new_data(view, each)]
    is_lost = any(each.new_volume not in view.places for each in open_)
    return is_lost or (bool(open_) and says_namespace_goes(view.refusal))


def tell_kept(view: RestoreView) -> str:
    """Which volumes stay with the disks of before, once there is no way back and the VM is not what it was."""
    kept = [each.old_volume for each in read_record(view.restore) if _is_left(view, each) and _is_held(view, each)]
    return f"; PersistentVolumes that keep the disks of before: {', '.join(kept)}" if kept else ""


def let_old_volumes_go(view: RestoreView) -> tuple[Patch, ...]:
    """The VM is what it was: volumes that no claim has any more go as their policies say."""
    writes: list[Patch] = []
    for each in read_record(view.restore):
        place = view.places.get(each.old_volume)
        ref = None if place is None else place.spec.claim_ref
        if ref is not None and ref.uid == each.old_uid:
            writes += _give_policy(view, each.old_volume, each.old_policy)
    return tuple(writes)


def _plan_record(view: RestoreView, vm: VirtualMachine, now: datetime) -> SnapshotPlan:
    """Look at all of them before anything is touched, and write down what they are."""
    restore, named, exchanges = view.restore, disks_of(vm), []
    seen: set[str] = set()
    for volume in in_place_volumes(restore):
        name, filled = volume.persistent_volume_claim, view.staged.get(fill_name(restore, volume))
        if name in seen:
            return fail_restore(view, now, f"two volumes lie on PVC {name}: restore it under new names")
        seen.add(name)
        old = view.targets.get(name)
        if old is not None and name not in named:
            text = f"PVC {name} is no disk of the VM any more, and is left as it is: restore it without InPlace"
            return fail_restore(view, now, text)
        if old is not None and old.metadata.deletion_timestamp is not None:
            return _wait(view, now, f"PVC {name} is being deleted")
        if user := view.users.get(name):
            return _wait(view, now, f"PVC {name} is in use by {user}")
        if fill_name(restore, volume) in view.binds_late:
            text = "volumeRestorePolicy InPlace: the StorageClass binds claims once a Pod uses them, and there is none"
            return fail_restore(view, now, f"{text}: restore it under new names")
        if filled is None or filled.status.phase != "Bound":
            return _wait(view, now, f"PVC {fill_name(restore, volume)} is not bound yet")
        wanted = [each.spec.volume_name for each in (filled, old) if each is not None and each.spec.volume_name]
        missing = [each for each in wanted if each not in view.places]
        if missing:
            return _wait(view, now, f"PersistentVolume {missing[0]} cannot be read")
        exchanges.append(make_exchange(view, volume, dict(view.places)))
    try:
        return SnapshotPlan((Patch(restore, make_record(exchanges), "status"),), again_after=_LOOK_SECONDS)
    except TooMuchToRecord as error:
        return fail_restore(view, now, str(error))


def _plan_exchanges(view: RestoreView, exchanges: list[Exchange], now: datetime) -> SnapshotPlan | None:
    open_ = [each for each in exchanges if not _has_new_data(view, each)]
    for each in open_:
        if each.new_volume not in view.places:
            text = f"PersistentVolume {each.new_volume}, which has the new data of PVC {each.claim}, cannot be read"
            return _wait(view, now, text)
    held = [write for each in open_ for name in _volumes(each) for write in _give_policy(view, name, RETAIN)]
    if held:
        return _do(view, now, held)
    leaving = [write for each in open_ for write in _let_claims_go(view, each)]
    if leaving:
        return _do(view, now, leaving)
    steps: list[SnapshotAction] = []
    waits = ""
    for each in open_:
        step, wait = _bind(view, each)
        steps += step
        waits = waits or wait
    # A volume that has its claim is an ordinary one again.
    done = [each for each in exchanges if each not in open_]
    steps += [write for each in done for write in _give_policy(view, each.new_volume, each.new_policy)]
    if steps:
        return _do(view, now, steps)
    return _wait(view, now, waits) if open_ else None


def _let_claims_go(view: RestoreView, each: Exchange) -> list[SnapshotAction]:
    """Have both claims deleted, and nobody fill another one of their names."""
    actions: list[SnapshotAction] = []
    kept = view.target_volumes.get(each.claim)
    if kept is not None and kept.metadata.annotations.get(PRE_POPULATED) != each.claim:
        actions.append(Patch(kept, {"metadata": {"annotations": {PRE_POPULATED: each.claim}}}))
    filled, old = view.staged.get(each.filled), view.targets.get(each.claim)
    # The old one first: that is what tells that there is no way back.
    for claim, uid in ((old, each.old_uid), (filled, each.filled_uid)):
        if claim is not None and claim.metadata.uid == uid and claim.metadata.deletion_timestamp is None:
            actions.append(Delete(claim))
    # After the claims: what fills one is made anew as long as its claim looks as before.
    filler = view.volumes.get(each.filled)
    if filler is not None and filler.metadata.deletion_timestamp is None:
        actions.append(Delete(filler))
    return actions


def _bind(view: RestoreView, each: Exchange) -> tuple[list[SnapshotAction], str]:
    """What binds the claim's name to the volume with the new data, or what is waited for."""
    place, claim = view.places[each.new_volume], view.targets.get(each.claim)
    if each.filled in view.staged:
        return [], f"PVC {each.filled} is being deleted"
    if claim is not None and claim.metadata.uid == each.old_uid:
        return [], f"PVC {each.claim} is being deleted{_of_user(view, each.claim)}"
    if claim is not None:
        if claim.spec.volume_name == each.new_volume:
            return [], f"PVC {each.claim} is not bound to PersistentVolume {each.new_volume} yet"
        text = f"PVC {each.claim} was made by somebody else meanwhile: delete it; PersistentVolume {each.new_volume}"
        return [], f"{text} has the new data, {each.old_volume or 'none'} the old ones"
    ref = place.spec.claim_ref
    if ref is None or ref.name != each.claim or ref.uid:
        wanted = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": each.claim, "uid": None}
        named = {**wanted, "namespace": view.restore.metadata.namespace, "resourceVersion": None}
        return [Patch(place, {"spec": {"claimRef": named}})], ""
    return [Create(_make_claim(view, each))], ""


def _make_claim(view: RestoreView, each: Exchange) -> PersistentVolumeClaim:
    metadata = {
        "name": each.claim,
        "namespace": view.restore.metadata.namespace,
        "labels": each.labels,
        "annotations": each.annotations,
        "ownerReferences": each.owners,
    }
    return decode(PersistentVolumeClaim, {"metadata": metadata, "spec": each.spec})


def _is_left(view: RestoreView, each: Exchange) -> bool:
    """Whether the claim of before is not what it was; where there was none, whether that of the new data goes without
    its volume.
    """
    if each.old_uid:
        return not _is_same(view.targets.get(each.claim), each.old_uid)
    place = view.places.get(each.new_volume)
    is_held = place is not None and place.spec.persistent_volume_reclaim_policy == RETAIN
    return is_held and not _is_same(view.staged.get(each.filled), each.filled_uid)


def _is_held(view: RestoreView, each: Exchange) -> bool:
    place = view.places.get(each.old_volume)
    return place is not None and place.spec.persistent_volume_reclaim_policy == RETAIN


def _is_same(claim: PersistentVolumeClaim | None, uid: str) -> bool:
    return claim is not None and claim.metadata.uid == uid and claim.metadata.deletion_timestamp is None


def _has_new_data(view: RestoreView, each: Exchange) -> bool:
    claim, place = view.targets.get(each.claim), view.places.get(each.new_volume)
    if claim is None or place is None or claim.metadata.uid == each.old_uid:
        return False
    ref = place.spec.claim_ref
    is_bound = claim.status.phase == "Bound" and claim.spec.volume_name == each.new_volume
    return is_bound and ref is not None and ref.uid == claim.metadata.uid


def _volumes(each: Exchange) -> list[str]:
    return [name for name in (each.new_volume, each.old_volume) if name]


def _give_policy(view: RestoreView, name: str, policy: str) -> list[Patch]:
    place: PersistentVolume | None = view.places.get(name)
    if place is None or not policy or place.spec.persistent_volume_reclaim_policy == policy:
        return []
    body: JsonObject = {"spec": {"persistentVolumeReclaimPolicy": policy}}
    return [Patch(place, body)]


def _of_user(view: RestoreView, claim: str) -> str:
    user = view.users.get(claim)
    return f", and in use by {user}" if user else ""


def _do(view: RestoreView, now: datetime, actions: Sequence[SnapshotAction]) -> SnapshotPlan:
    """Do these, and tell what the server had against the ones before."""
    return SnapshotPlan((*actions, *_wait(view, now, view.refusal).actions), again_after=_LOOK_SECONDS)


def _wait(view: RestoreView, now: datetime, why: str) -> SnapshotPlan:
    return report_restore(view, now, view.restore.status, _EXCHANGING, _WAITING, message=why, again=_LOOK_SECONDS)
