"""The status of a VM: the columns of `kubectl get vm`, and the conditions that scripts wait for.

Called by the VM's plan. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct

from kvedge.controller.kubevirt.condition_rules import with_condition, without_conditions
from kvedge.controller.vm.claim_move_plan import ClaimMove, recovery_condition
from kvedge.controller.vm.data_volume_states import are_being_filled, have_failed, wait_for_consumer
from kvedge.controller.vm.template_changes import why_restart
from kvedge.controller.vm.typed_vm import UNTYPED, TypedVm
from kvedge.controller.vm.vmi_template import is_measured, needs_restart
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.moved_volumes import MANUAL_RECOVERY_REQUIRED
from kvedge.resources.disks.volume_facts import lasting_claim
from kvedge.resources.evacuation import LIVE_MIGRATABLE
from kvedge.resources.meta import Condition, condition
from kvedge.resources.moves.pod_room import find_room, outgrows_node, outgrows_pod
from kvedge.resources.names import ALARM, MIGRATION_REQUIRED, VM_GENERATION
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.vm import (
    MemoryDumpRequest,
    StartFailure,
    StateChangeRequest,
    VirtualMachine,
    VirtualMachineStatus,
    VolumeMigrationState,
    VolumeUpdateState,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.whole_numbers import whole_number

READY: Final = "Ready"
FAILURE: Final = "Failure"
RESTART_REQUIRED: Final = "RestartRequired"
# Why a restart is required of a VM of whose template its run has everything but the room.
POD_TOO_SMALL: Final = "PodTooSmall"
# The VM's own conditions, of which alarms write theirs. All others are copies of its VMI's, and go with them.
_OWN_CONDITIONS: Final = frozenset({READY, FAILURE, RESTART_REQUIRED, MANUAL_RECOVERY_REQUIRED, ALARM})
_STARTING_PHASES: Final = frozenset({"", "Pending", "Scheduling", "Scheduled"})
_RETRYING_STRATEGIES: Final = frozenset({"Always", "RerunOnFailure", "Once"})


class VmView(Struct, frozen=True):
    """A VM and its own VMI as they will be once the plan's other actions are done."""

    vm: VirtualMachine
    vmi: VirtualMachineInstance | None
    start_failure: StartFailure | None
    requests: tuple[StateChangeRequest, ...]
    observed_strategy: str
    # The plan ends the VM's own VMI.
    stopping: bool = False
    failure: Condition | None = None
    # The existing ones that its volumes name.
    data_volumes: Sequence[DataVolume] = ()
    # The network binding plugins whose NICs come while a guest runs.
    live_plugins: frozenset[str] = frozenset()
    # Whether changed sockets and selectors reach the running guest.
    is_live: bool = False
    # Whether there is one node, and whether guests that wait for another Pod are migrated.
    is_alone: bool = False
    migrates: bool = False
    # What becomes of exchanged claims; without it nobody has looked, and what was said of them stays.
    move: ClaimMove | None = None
    # The request of a dump of the guest's memory, once somebody has looked at it.
    memory_dump: MemoryDumpRequest | Literal["as before"] | None = "as before"
    # The VM with its instance type and preference.
    typed: TypedVm = UNTYPED


def next_status(view: VmView, now: datetime) -> VirtualMachineStatus:
    """The whole status; fields that kvedge does not write stay as they are."""
    vmi, old = view.vmi, view.vm.status
    ready = None if vmi is None else condition(vmi.status.conditions, READY)
    changed = msgspec.structs.replace(
        old,
        created=vmi is not None,
        ready=ready is not None and ready.status == "True",
        printable_status=printable_status(view),
        conditions=_conditions(view, now),
        state_change_requests=list(view.requests),
        start_failure=view.start_failure,
        run_strategy=view.observed_strategy,
        volume_update_state=_find_volume_update(view),
        volume_snapshot_statuses=list(list_snapshot_statuses(view.vm)),
        memory_dump_request=old.memory_dump_request if view.memory_dump == "as before" else view.memory_dump,
    )
    if vmi is not None:
        started_from = whole_number(vmi.metadata.annotations.get(VM_GENERATION, ""))
        changed.desired_generation = view.vm.metadata.generation
        changed.observed_generation = view.vm.metadata.generation if started_from is None else started_from
    return changed


def _find_volume_update(view: VmView) -> VolumeUpdateState | None:
    if view.move is None:
        return view.vm.status.volume_update_state
    moved = list(view.move.recorded)
    return VolumeUpdateState(volume_migration_state=VolumeMigrationState(migrated_volumes=moved)) if moved else None


def list_snapshot_statuses(vm: VirtualMachine) -> Iterator[JsonObject]:
    """Which volumes a snapshot would hold, in KubeVirt's words; all claims can be copied."""
    for volume in [] if vm.spec.template is None else vm.spec.template.spec.volumes:
        if lasting_claim(volume) is not None:
            yield {"name": volume.name, "enabled": True}
        else:
            text = f"Snapshot is not supported for this volumeSource type [{volume.name}]"
            yield {"name": volume.name, "enabled": False, "reason": text}


def printable_status(view: VmView) -> str:
    """KubeVirt's one word for the state; the first rule that holds gives it."""
    return next(word for word, holds in _PRINTABLE if holds(view))


def _has_condition(view: VmView, type_: str, status: str, reason: str) -> bool:
    found = None if view.vmi is None else condition(view.vmi.status.conditions, type_)
    return found is not None and found.status == status and (not reason or found.reason == reason)


def _is_stopping(view: VmView) -> bool:
    vmi = view.vmi
    return vmi is not None and not vmi.is_final and (view.stopping or vmi.metadata.deletion_timestamp is not None)


def _is_moving(view: VmView) -> bool:
    """Whether its guest is under way to another node; before that it runs, and is only prepared for there."""
    state = None if view.vmi is None or view.vmi.is_final else view.vmi.status.migration_state
    return state is not None and state.is_open and state.start_timestamp is not None


def _in_phase(view: VmView, *phases: str) -> bool:
    return view.vmi is not None and view.vmi.status.phase in phases


def _is_in_crash_loop(view: VmView) -> bool:
    failed = view.start_failure is not None and view.start_failure.consecutive_fail_count > 0
    over = view.vmi is None or view.vmi.is_final
    return failed and over and view.vm.run_strategy in _RETRYING_STRATEGIES


def _waits_for_binding(view: VmView) -> bool:
    return _in_phase(view, *_STARTING_PHASES) and wait_for_consumer(view.data_volumes)


_PRINTABLE: Final[Sequence[tuple[str, Callable[[VmView], bool]]]] = (
    ("Terminating", lambda view: view.vm.metadata.deletion_timestamp is not None),
    ("Stopping", _is_stopping),
    ("Migrating", _is_moving),
    ("Paused", lambda view: _in_phase(view, "Running") and _has_condition(view, "Paused", "True", "")),
    ("Running", lambda view: _in_phase(view, "Running")),
    ("WaitingForReceiver", lambda view: _in_phase(view, "WaitingForSync")),
    # A run exists before its DataVolumes are full. Until then their states tell more than the run's.
    ("DataVolumeError", lambda view: have_failed(view.data_volumes)),
    ("Provisioning", lambda view: are_being_filled(view.data_volumes)),
    ("WaitingForVolumeBinding", _waits_for_binding),
    ("ErrorPvcNotFound", lambda view: _has_condition(view, "Synchronized", "False", "FailedPvcNotFound")),
    ("Provisioning", lambda view: _has_condition(view, "Synchronized", "False", "PVCNotPopulated")),
    ("ErrorUnschedulable", lambda view: _has_condition(view, "PodScheduled", "False", "Unschedulable")),
    ("WaitingForVolumeBinding", lambda view: _has_condition(view, "Synchronized", "False", "PVCNotBound")),
    ("ErrImagePull", lambda view: _has_condition(view, "Synchronized", "False", "ErrImagePull")),
    ("ImagePullBackOff", lambda view: _has_condition(view, "Synchronized", "False", "ImagePullBackOff")),
    ("Starting", lambda view: _in_phase(view, *_STARTING_PHASES)),
    ("CrashLoopBackOff", _is_in_crash_loop),
    ("Stopped", lambda view: view.vmi is None or view.vmi.is_final),
    ("Unknown", lambda view: True),
)


def _conditions(view: VmView, now: datetime) -> list[Condition]:
    theirs = [] if view.vmi is None else [item for item in view.vmi.status.conditions if item.type != READY]
    copied = {item.type for item in theirs}
    old = view.vm.status.conditions
    conditions = without_conditions(old, {c.type for c in old} - copied - _OWN_CONDITIONS)
    conditions = with_condition(conditions, _ready(view.vmi), now)
    for item in theirs:
        conditions = with_condition(conditions, item, now)
    conditions = _with_or_without(conditions, FAILURE, view.failure, now)
    if view.move is not None:
        recovery = recovery_condition(view.move)
        conditions = _with_or_without(conditions, MANUAL_RECOVERY_REQUIRED, recovery, now)
    return _with_or_without(conditions, RESTART_REQUIRED, _restart_required(view), now)


def _with_or_without(
    conditions: list[Condition], type_: str, wanted: Condition | None, now: datetime
) -> list[Condition]:
    if wanted is None:
        return without_conditions(conditions, {type_})
    return with_condition(conditions, wanted, now)


def _ready(vmi: VirtualMachineInstance | None) -> Condition:
    if vmi is None:
        return Condition(type=READY, status="False", reason="VMINotExists", message="VMI does not exist")
    theirs = condition(vmi.status.conditions, READY)
    if theirs is not None:
        return theirs
    if vmi.status.phase in _STARTING_PHASES:
        # The VMI is about to get the same condition: showing it early saves one write of the VM per start.
        return guest_not_running()
    return Condition(
        type=READY, status="False", reason="VMIConditionMissing", message="VMI is missing the Ready condition"
    )


def guest_not_running() -> Condition:
    """The Ready condition of a VMI whose guest does not run (yet)."""
    return Condition(
        type=READY, status="False", reason="GuestNotRunning", message="Guest VM is not reported as running"
    )


def _restart_required(view: VmView) -> Condition | None:
    vmi = view.vmi
    if vmi is None or vmi.is_final:
        return None
    if view.typed.failure is not None and not (view.move or ClaimMove()).restart:
        # Nobody knows what the VM is by now.
        return condition(view.vm.status.conditions, RESTART_REQUIRED)
    message = restart_message(view)
    if message is not None:
        return Condition(type=RESTART_REQUIRED, status="True", reason=RESTART_REQUIRED, message=message)
    # Not every guest can be migrated to another Pod, and not every cluster does it.
    return None if _is_migrated(view, vmi) else _why_other_pod(view, vmi)


def _why_other_pod(view: VmView, vmi: VirtualMachineInstance) -> Condition | None:
    """Why the guest has to come to another Pod: one that is on other networks, or larger than its own can become.

    A size that the only node has not got is no reason: after a restart the Pod would find no node at all.
    """
    waits = condition(vmi.status.conditions, MIGRATION_REQUIRED)
    if waits is not None and waits.status == "True":
        return Condition(type=RESTART_REQUIRED, status="True", reason=RESTART_REQUIRED, message=waits.message)
    room = find_room(vmi)
    if room is None or not outgrows_pod(vmi) or (view.is_alone and outgrows_node(vmi)):
        return None
    return Condition(type=RESTART_REQUIRED, status="True", reason=POD_TOO_SMALL, message=room.message)


def has_changes_to_come(vm: VirtualMachine) -> bool:
    """Whether the VM's template has something that its run gets with the next start only."""
    found = condition(vm.status.conditions, RESTART_REQUIRED)
    return found is not None and found.status == "True" and found.reason != POD_TOO_SMALL


def _is_migrated(view: VmView, vmi: VirtualMachineInstance) -> bool:
    """Whether a guest that waits for another Pod comes to one by itself."""
    migratable = condition(vmi.status.conditions, LIVE_MIGRATABLE)
    return view.migrates and not view.is_alone and migratable is not None and migratable.status == "True"


def restart_message(view: VmView) -> str | None:
    """What of the VM its run cannot have before it is started again; None when there is nothing, or no run."""
    vmi, move = view.vmi, view.move or ClaimMove()
    if vmi is None or vmi.is_final:
        return None
    if move.restart:
        return move.restart
    live = {"claims_move": move.is_carried, "is_alone": view.is_alone}
    if needs_restart(view.vm, vmi, view.live_plugins, **live, typed=view.typed):
        return "a non-live-updatable field was changed in the template spec"
    if not is_measured(view.vm, vmi):
        return None
    return why_restart(view.typed.template_of(view.vm).spec, vmi, live=view.is_live) or None
