"""Decides how a running VM's volumes get other claims with their data, and when a VM may start afterwards.

Called by the VM's plan and status. Pure. The VM's status says which claims are incomplete before anybody copies to
them, and says so until a run is known that uses what the template names, or the template names nothing incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.controller.kubevirt.condition_rules import with_condition, without_conditions
from kvedge.controller.vm.claim_changes import (
    WAITS,
    ClaimSights,
    Refused,
    Waits,
    find_exchanges,
    is_moving_data,
    judge_exchanges,
    recorded_of,
    template_volumes,
)
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.moved_volumes import (
    IN_PLACE,
    MANUAL_RECOVERY_REQUIRED,
    VOLUMES_CHANGE,
    destinations,
    is_settled_in_place,
    moves_in_place,
)
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.meta import Condition, condition
from kvedge.resources.moves.disk_moves import MOVED_FROM
from kvedge.resources.names import VM_FINALIZER
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import MigratedVolume, VirtualMachineInstance
from kvedge.resources.types.volumes import PersistentVolumeClaimSource

CANCELLATION: Final = "VolumesChangeCancellation"
# Of the VM's condition Failure.
UPDATE_ERROR: Final = "VolumesUpdateError"
_REVERT_ALONE: Final = "The volume can only be reverted to the previous version during the update"
_RECOVERY_REASON: Final = "VMI was removed or was final during the volume migration"
_RECOVERY: Final = (
    "Volume migration failed, leaving some volumes pointing to non-consistent targets; manual intervention is needed to"
    " reassign them to their original volumes."
)
# A claim that somebody else has to let go.
_LOOK_SECONDS: Final = 5.0


class ClaimMove(Struct, frozen=True):
    """What becomes of exchanged claims.

    `recorded` is what the VM's status says of them; `is_blocked` that no run may start with them; `body` a merge patch
    of the VMI; `restart` why only a restart brings them, `is_carried` that none is needed for them. `put_back` is a
    merge patch of the VM that names the old claims again.
    """

    recorded: Sequence[MigratedVolume] = ()
    is_blocked: bool = False
    body: JsonObject = field(default_factory=dict)
    restart: str = ""
    is_carried: bool = False
    failure: Condition | None = None
    again_after: float | None = None
    put_back: JsonObject = field(default_factory=dict)


def plan_claim_move(
    vm: VirtualMachine, vmi: VirtualMachineInstance | None, sights: ClaimSights, now: datetime
) -> ClaimMove:
    """Decide it; `vmi` is the VM's own run."""
    if vmi is None or vmi.is_final:
        move = _plan_unseen(vm, vmi, sights) or _plan_without_run(vm, vmi)
        if not move.is_blocked:
            return move
        # In place nobody needs to decide: the VM starts where its data is, and the change may be asked for again.
        is_free = vmi is not None and (moves_in_place(vmi) or sights.is_in_place)
        return replace(move, put_back=_put_back(vm, move.recorded, sights, is_free=is_free))
    if vmi.status.migrated_volumes:
        return _plan_pending(vm, vmi, now)
    exchanges = find_exchanges(vm, vmi, sights)
    if not exchanges or not is_moving_data(vm):
        return ClaimMove(body=_patch(vmi, without_wait(vmi)))
    is_ready = vmi.status.phase == "Running" and vmi.metadata.deletion_timestamp is None
    if not is_ready or _is_migrating(vmi):
        # What a guest has must not change while it is made on another node.
        return ClaimMove(is_carried=True)
    verdict = judge_exchanges(vm, vmi, exchanges, sights)
    if isinstance(verdict, Refused):
        return ClaimMove(body=_patch(vmi, without_wait(vmi)), restart=verdict.text)
    if isinstance(verdict, Waits):
        waiting = _say(vmi, "False", verdict.reason, verdict.text, now)
        return ClaimMove(body=_patch(vmi, waiting), is_carried=True, again_after=_LOOK_SECONDS)
    accepted = _accept(vmi, now, is_in_place=sights.is_in_place)
    return ClaimMove(exchanges, body=_patch(vmi, accepted, exchanges), is_carried=True)


def recovery_condition(move: ClaimMove) -> Condition | None:
    """The VM's condition while its template names claims that are incomplete and no run is there."""
    if not move.is_blocked:
        return None
    names = (
        f" Volume {each.volume_name}: {each.source_pvc_info.claim_name if each.source_pvc_info else ''}."
        for each in move.recorded
    )
    return Condition(
        type=MANUAL_RECOVERY_REQUIRED, status="True", reason=_RECOVERY_REASON, message=_RECOVERY + "".join(names)
    )


def without_wait(vmi: VirtualMachineInstance) -> list[Condition]:
    """The VMI's conditions once nothing is to be exchanged any more; that a change was cancelled stays."""
    found = condition(vmi.status.conditions, VOLUMES_CHANGE)
    if found is None or (found.status != "True" and found.reason not in WAITS):
        return vmi.status.conditions
    return without_conditions(vmi.status.conditions, {VOLUMES_CHANGE})


def _plan_unseen(vm: VirtualMachine, vmi: VirtualMachineInstance | None, sights: ClaimSights) -> ClaimMove | None:
    """A change that was made while the run lived, and that nobody has seen before its end: as if it had begun.

    Its user wants the guest's data there, and the claim may have some of it from an earlier time. A change that could
    not have begun is taken as it is, unless its claims were made for the disks to move to: nobody wants a guest on
    these without its data.
    """
    if vmi is None or VM_FINALIZER not in vmi.metadata.finalizers or recorded_of(vm) or not is_moving_data(vm):
        return None
    exchanges = find_exchanges(vm, vmi, sights)
    if exchanges and judge_exchanges(vm, vmi, exchanges, sights) is not None:
        exchanges = [each for each in exchanges if _is_made_for_move(each, sights)]
    return ClaimMove(exchanges, is_blocked=True) if exchanges else None


def _is_made_for_move(each: MigratedVolume, sights: ClaimSights) -> bool:
    """Whether a disk's claim is one that was made for it to move to, which nobody chose."""
    source, destination = each.source_pvc_info, each.destination_pvc_info
    claim = None if destination is None else sights.found.get(destination.claim_name)
    return source is not None and claim is not None and claim.metadata.annotations.get(MOVED_FROM) == source.claim_name


def _plan_without_run(vm: VirtualMachine, vmi: VirtualMachineInstance | None) -> ClaimMove:
    """A run that is over says by its spec where its data is; without one, the VM's status says it."""
    if not recorded_of(vm) or not is_moving_data(vm):
        # Whoever takes the strategy away wants the claims as they are.
        return ClaimMove()
    last = {} if vmi is None else {volume.name: claim_of(volume) for volume in vmi.spec.volumes}
    left = [_turn(each, last.get(each.volume_name)) for each in recorded_of(vm)]
    wanted = {name: claim_of(volume) for name, volume in template_volumes(vm).items()}
    sources = {each.volume_name: each.source_pvc_info.claim_name for each in left if each.source_pvc_info is not None}
    destinations_left = {each.destination_pvc_info.claim_name for each in left if each.destination_pvc_info is not None}
    elsewhere = (name for name, claim in sources.items() if wanted.get(name) not in (None, claim))
    # Nor does a volume of another name get what is incomplete.
    given = (name for name, claim in wanted.items() if claim in destinations_left - set(sources.values()))
    if any(elsewhere) or any(given):
        return ClaimMove(left, is_blocked=True)
    return ClaimMove()


def _put_back(vm: VirtualMachine, left: Sequence[MigratedVolume], sights: ClaimSights, *, is_free: bool) -> JsonObject:
    """A merge patch of a VM that names the claims again that have its data, where new ones were made for its guest to
    leave a node with its disks: nobody chose these, and the VM starts again by itself. Empty where a user chose one,
    unless it `is_free`.
    """
    back: dict[str, str] = {}
    for each in left:
        if not is_free and not _is_made_for_move(each, sights):
            return {}
        assert each.source_pvc_info is not None
        assert each.destination_pvc_info is not None
        back[each.destination_pvc_info.claim_name] = each.source_pvc_info.claim_name
    volumes = []
    for volume in template_volumes(vm).values():
        claim_name = back.get(claim_of(volume) or "")
        if claim_name is not None:
            given = PersistentVolumeClaimSource(claim_name=claim_name)
            volume = msgspec.structs.replace(volume, persistent_volume_claim=given, data_volume=None)
        volumes.append(encode(volume))
    return {"spec": {"template": {"spec": {"volumes": volumes}}}}


def _turn(each: MigratedVolume, last: str | None) -> MigratedVolume:
    """A change whose guest has moved, although its user has put the old claim back: that one is the stale one."""
    destination = each.destination_pvc_info
    if destination is None or last is None or last != destination.claim_name:
        return each
    return MigratedVolume(
        volume_name=each.volume_name, source_pvc_info=destination, destination_pvc_info=each.source_pvc_info
    )


def _plan_pending(vm: VirtualMachine, vmi: VirtualMachineInstance, now: datetime) -> ClaimMove:
    """A change that the VMI's status names: it goes on, or all of it is taken back."""
    pending = vmi.status.migrated_volumes
    is_settled = is_settled_in_place(vmi) if moves_in_place(vmi) else not _is_migrating(vmi)
    if not destinations(vmi) and is_settled:
        # Nothing of it is left to move.
        return ClaimMove(body=_patch(vmi, without_conditions(vmi.status.conditions, {VOLUMES_CHANGE}), ()))
    wanted = {name: claim_of(volume) for name, volume in template_volumes(vm).items()}
    names = {each.volume_name for each in pending}
    is_more = any(each.volume_name not in names for each in find_exchanges(vm, vmi))
    if not is_more and _is_at(wanted, {name: claim.claim_name for name, claim in destinations(vmi).items()}):
        accepted = _accept(vmi, now, is_in_place=moves_in_place(vmi))
        return ClaimMove(pending, body=_patch(vmi, accepted, pending), is_carried=True)
    sources = {each.volume_name: each.source_pvc_info.claim_name for each in pending if each.source_pvc_info}
    if not is_more and _is_at(wanted, sources):
        # The migration is ended by this word. What it moves stays named until the guest is known to stay.
        taken_back = _say(vmi, "False", CANCELLATION, "", now)
        return ClaimMove(pending, body=_patch(vmi, taken_back, pending if _is_migrating(vmi) else ()), is_carried=True)
    failure = Condition(
        type="Failure",
        status="True",
        reason=UPDATE_ERROR,
        message=f"error encountered while handling volumes update requests: {_REVERT_ALONE}",
    )
    return ClaimMove(pending, failure=failure, is_carried=True)


def _is_at(wanted: Mapping[str, str | None], claims: Mapping[str, str]) -> bool:
    return all(wanted.get(name) == claim for name, claim in claims.items())


def _is_migrating(vmi: VirtualMachineInstance) -> bool:
    state = vmi.status.migration_state
    return state is not None and state.is_open


def _accept(vmi: VirtualMachineInstance, now: datetime, *, is_in_place: bool) -> list[Condition]:
    return _say(vmi, "True", IN_PLACE if is_in_place else "", "migrate volumes", now)


def _say(vmi: VirtualMachineInstance, status: str, reason: str, message: str, now: datetime) -> list[Condition]:
    wanted = Condition(type=VOLUMES_CHANGE, status=status, reason=reason, message=message)
    return with_condition(vmi.status.conditions, wanted, now)


def _patch(
    vmi: VirtualMachineInstance, conditions: list[Condition], moved: Sequence[MigratedVolume] | None = None
) -> JsonObject:
    """A merge patch of the VMI's status; empty when that says it already."""
    named = vmi.status.migrated_volumes if moved is None else list(moved)
    status = msgspec.structs.replace(vmi.status, conditions=conditions, migrated_volumes=named)
    changes = merge_difference(encode(vmi.status), encode(status))
    return {"status": changes} if changes else {}
