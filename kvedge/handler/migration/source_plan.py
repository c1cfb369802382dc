"""What the handler does next for a guest that is to leave its node.

Called by the source's steps with the VMI and what the launcher says. Pure. That a guest begins to move is written down
before its launcher is asked to move it: whoever reads that it has not begun, knows that it has not.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from kvedge.handler.migration.migration_patches import STOPPED
from kvedge.resources.types.migrations import AbortStatus, MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import (
    OUTGOING_ACTIVE,
    OUTGOING_GONE,
    OUTGOING_KEPT,
    OUTGOING_NONE,
    OUTGOING_RESUMING,
    OutgoingState,
)

# How soon the limits of a migration are looked at again.
WATCH_SECONDS: Final = 1.0
# An abort that has brought nothing is repeated.
ABORT_SECONDS: Final = 5.0
# For so long a launcher that does not begin is asked again; then the guest stays.
BEGIN_SECONDS: Final = 60.0
ABORTED: Final = "Live migration has been aborted"
_SILENT: Final = "the launcher that the guest was to leave ended without a word, and nothing of it runs"
_OLD: Final = "the launcher is of an earlier version, which cannot move its guest"


class SourceStep(Enum):
    """One thing to do."""

    BEGIN = "write down that the guest begins to move"
    MOVE = "open the way, and have the launcher move the guest"
    ABORT = "have the launcher keep the guest"
    HOLD = "have the launcher stop the guest on its way, and write that down"
    RECORD_STAY = "write down that the guest stays"
    RECORD_LEFT = "write down that nothing of the guest is left here"
    ACKNOWLEDGE = "tell the launcher that this is written down"
    RECORD_MOVED = "write down that the guest is the other box's"
    CLOSE = "close the way"


class SourceSeen(NamedTuple):
    """What is known of the guest's launcher.

    `word` is of this very migration: NONE from a launcher that was not asked for it, None when nobody answers and none
    was left. `said` are libvirt's words. `gone` says that the launcher left no word, and that nothing of it runs here.
    `alive` tells a guest that can move. `overrun` is why it has taken too long, `slow` says that it is to be stopped
    so that it gets away, `refused` why the launcher has not begun, although it was asked for as long as that makes
    sense.
    """

    word: OutgoingState | None = None
    said: str = ""
    connected: bool = False
    gone: bool = False
    alive: bool = False
    migrates: bool = True
    overrun: str = ""
    slow: bool = False
    refused: str = ""


class SourcePlan(NamedTuple):
    """Steps in order, and when to look again without an event. `left`: the guest is not this node's to care for."""

    steps: tuple[SourceStep, ...] = ()
    reason: str = ""
    abort_status: AbortStatus = ""
    again: float | None = None
    left: bool = False


def leaves(vmi: VirtualMachineInstance, node: str) -> MigrationState | None:
    """The latest migration of a guest of this node away from it, whatever became of it."""
    state = vmi.status.migration_state
    return state if state is not None and state.source_node == node == vmi.status.node_name else None


def plan_source(vmi: VirtualMachineInstance, node: str, seen: SourceSeen) -> SourcePlan:
    """What to do; done again and again, until the VMI says what became of the guest."""
    state = leaves(vmi, node)
    if state is None or vmi.is_final:
        return SourcePlan((SourceStep.CLOSE,))
    if state.has_left_box:
        # What is left of its run is for the controller to end.
        return SourcePlan((SourceStep.CLOSE,), left=True)
    if not state.is_open:
        # Somebody has given it up that could not know what the launcher does.
        steps = (SourceStep.ABORT,) if seen.word == OUTGOING_ACTIVE else (SourceStep.CLOSE,)
        return SourcePlan(steps, state.failure_reason, again=ABORT_SECONDS if seen.word == OUTGOING_ACTIVE else None)
    if state.source_node_domain_gone_timestamp:
        told = (SourceStep.ACKNOWLEDGE,) if seen.connected and not seen.alive else ()
        return _plan_crossed(state, told) or SourcePlan((*told, SourceStep.CLOSE), left=True)
    if seen.word == OUTGOING_GONE:
        return SourcePlan((SourceStep.RECORD_LEFT,), abort_status="Failed" if state.abort_requested else "")
    if state.source_pod_gone_timestamp and state.start_timestamp and state.target_state is None:
        # The other node's handler decides by now: a second word would be one too many.
        return SourcePlan((SourceStep.CLOSE,), left=True)
    if seen.word == OUTGOING_KEPT:
        return _plan_stay(state, seen)
    if seen.word in (OUTGOING_ACTIVE, OUTGOING_RESUMING):
        return _plan_moving(vmi, state, seen)
    return _plan_beginning(vmi, state, seen)


def _plan_crossed(state: MigrationState, told: tuple[SourceStep, ...]) -> SourcePlan | None:
    """The guest has left for another box, which says whether it has taken it; None for one of the cluster.

    Nothing else ends this: as long as the other box says neither, the guest may be there.
    """
    peer = state.target_state
    if peer is None:
        return None
    if state.target_taken_timestamp:
        return SourcePlan((*told, SourceStep.CLOSE, SourceStep.RECORD_MOVED), left=True)
    if peer.failed:
        lost = f"the guest was lost on its way: {peer.reason or 'the other box has not taken it'}"
        return SourcePlan((*told, SourceStep.RECORD_STAY, SourceStep.CLOSE), lost)
    return SourcePlan((*told, SourceStep.CLOSE), again=WATCH_SECONDS, left=True)


def _plan_stay(state: MigrationState, seen: SourceSeen) -> SourcePlan:
    said = seen.said or "the guest did not leave"
    asked = f"{ABORTED}: {seen.overrun}" if seen.overrun else _explain_abort(state)
    reason = asked if seen.overrun or state.is_unwanted else said
    if seen.refused and not (seen.overrun or state.is_unwanted):
        reason = seen.refused
    status: AbortStatus = "Succeeded" if state.is_unwanted or seen.overrun else ""
    return SourcePlan((SourceStep.RECORD_STAY, SourceStep.CLOSE), reason, status)


def _explain_abort(state: MigrationState) -> str:
    peer = state.target_state
    if state.abort_requested or peer is None or not peer.failed:
        return ABORTED
    return f"{ABORTED}: the other box does not take the guest: {peer.reason}"


def _plan_moving(vmi: VirtualMachineInstance, state: MigrationState, seen: SourceSeen) -> SourcePlan:
    unwanted = state.is_unwanted or vmi.metadata.deletion_timestamp is not None or bool(seen.overrun)
    if seen.word == OUTGOING_ACTIVE and unwanted and seen.connected:
        return SourcePlan((SourceStep.ABORT,), seen.overrun, "Aborting", again=ABORT_SECONDS)
    if seen.word == OUTGOING_ACTIVE and seen.slow and seen.connected and state.mode != STOPPED:
        return SourcePlan((SourceStep.HOLD,), again=WATCH_SECONDS)
    return SourcePlan(again=WATCH_SECONDS)


def _plan_beginning(vmi: VirtualMachineInstance, state: MigrationState, seen: SourceSeen) -> SourcePlan:
    """The launcher was not asked yet, or nobody answers."""
    if not state.start_timestamp:
        if state.is_unwanted:
            return SourcePlan((SourceStep.RECORD_STAY,), _explain_abort(state), "Succeeded")
        if seen.connected and not seen.migrates:
            return SourcePlan((SourceStep.RECORD_STAY,), _OLD)
        is_ending = vmi.metadata.deletion_timestamp is not None
        can = seen.connected and seen.alive and state.target_node_address and not is_ending
        return SourcePlan((SourceStep.BEGIN,)) if can else SourcePlan()
    if seen.gone:
        # Its Pod may be gone from the API, and then nobody else has a proof. What has come to the other side, if it is
        # all of it, may be of an earlier moment.
        return SourcePlan((SourceStep.RECORD_STAY, SourceStep.CLOSE), _SILENT)
    if not seen.connected or seen.word != OUTGOING_NONE:
        return SourcePlan(again=WATCH_SECONDS)
    if state.is_unwanted or vmi.metadata.deletion_timestamp is not None or seen.refused:
        # It never begins, once this has been answered.
        return SourcePlan((SourceStep.ABORT,), seen.refused, again=ABORT_SECONDS)
    if not seen.alive:
        # It ended just before: its end is told as any other.
        return SourcePlan(again=WATCH_SECONDS)
    return SourcePlan((SourceStep.MOVE,), again=WATCH_SECONDS)
