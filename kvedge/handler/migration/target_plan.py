"""What the handler does next for a guest that is to come to its node.

Called by the target's steps with the VMI and what the launcher says. Pure. What becomes of a guest that both launchers
know of is `outcome_plan`'s decision.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from kvedge.handler.migration.outcome_plan import OutcomeSeen, Ruling, rule
from kvedge.resources.disks.moved_volumes import destinations
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import (
    INCOMING_ARRIVING,
    INCOMING_COMPLETE,
    INCOMING_EMPTY,
    INCOMING_FAILED,
    INCOMING_READY,
    OUTGOING_GONE,
    OUTGOING_KEPT,
    IncomingState,
    OutgoingState,
)

# How soon a launcher that is not there yet is looked for again, and a preparation that failed is tried again.
AGAIN_SECONDS: Final = 1.0
# For so long it is tried to prepare for a guest (KubeVirt's launcher waits as long for one).
PREPARE_SECONDS: Final = 240.0
_WAITING: Final = (INCOMING_EMPTY, INCOMING_READY, INCOMING_ARRIVING, INCOMING_COMPLETE, INCOMING_FAILED)
_COMING: Final = (INCOMING_READY, INCOMING_ARRIVING, INCOMING_COMPLETE)


class TargetStep(Enum):
    """One thing to do."""

    PREPARE = "prepare the Pod, and have the launcher listen"
    EXPECT = "let the guest in"
    ANNOUNCE = "write down where the guest is to come to"
    DETECT = "write down that the guest is on its way"
    EXCHANGE = "write down that the guest has its other claims from now on"
    TAKE = "write down that the guest is this box's, whatever becomes of it"
    REFUSE = "write down that the guest does not come, before anybody was told where to"
    RELEASE = "let the guest run"
    ADOPT = "write down that the guest is this node's"
    GIVE_UP = "make sure that nothing has come, and end what waits"
    DISCARD = "end what has come, and let the launcher go"
    RECORD_LOSS = "write down that the guest is nowhere"
    FORGET = "drop what is remembered of this guest"


class TargetSeen(NamedTuple):
    """`word` is the launcher's, None when nobody answers; `said` its reason. `gone` says that nothing of it is left on
    this node. `address` is where this node's relay listens. `stuck` is why the preparation is not tried any more.
    `hears` says that the source's handler may yet tell what a launcher said before its Pod went.
    """

    word: IncomingState | None = None
    said: str = ""
    gone: bool = False
    address: str = ""
    stuck: str = ""
    hears: bool = False


class TargetPlan(NamedTuple):
    """Steps in order, why, and when to look again without an event."""

    steps: tuple[TargetStep, ...] = ()
    reason: str = ""
    again: float | None = None


def comes(vmi: VirtualMachineInstance, node: str) -> MigrationState | None:
    """The latest migration of a guest to this node, while the guest is another node's."""
    state = vmi.status.migration_state
    return state if state is not None and state.target_node == node != vmi.status.node_name else None


def word_of_source(state: MigrationState) -> OutgoingState | None:
    """What the source has said that stays true."""
    if state.source_node_domain_gone_timestamp:
        return OUTGOING_GONE
    return OUTGOING_KEPT if state.failed else None


def plan_target(vmi: VirtualMachineInstance, node: str, seen: TargetSeen) -> TargetPlan:
    """What to do; done again and again, until the guest is this node's or nothing waits for it any more."""
    state = comes(vmi, node)
    if state is None or (state.completed and not state.failed):
        return TargetPlan((TargetStep.FORGET,))
    if vmi.is_final:
        return _plan_discard(seen, "the guest has ended")
    unwanted = state.abort_requested or vmi.metadata.deletion_timestamp is not None
    if state.source_state is not None and state.is_open and unwanted and not state.target_node_address:
        # It begins once it has heard that it may come: nobody has said so.
        return TargetPlan((TargetStep.REFUSE,), "the migration was canceled before the guest began to move")
    source = word_of_source(state)
    is_off = bool(state.source_pod_gone_timestamp) and not seen.hears
    ruling = rule(OutcomeSeen(source, seen.word, is_off, seen.gone, unwanted))
    if ruling is Ruling.MOVED:
        return TargetPlan((TargetStep.ADOPT,))
    if ruling is Ruling.RELEASE and destinations(vmi):
        # Before it runs: were this launcher lost before the VMI is this node's, the guest would else start anew on
        # claims that lack what it has written here.
        return TargetPlan((TargetStep.EXCHANGE,), again=AGAIN_SECONDS)
    is_told = state.source_state is not None or state.moves_state
    if ruling is Ruling.RELEASE and is_told and not state.target_taken_timestamp:
        # Before it runs: were this launcher lost before the VMI is this node's, the other box would start the guest
        # anew; and within a cluster the VM would start with the TPM of before.
        return TargetPlan((TargetStep.TAKE,), again=AGAIN_SECONDS)
    if ruling is Ruling.RELEASE:
        return TargetPlan((TargetStep.RELEASE,), again=AGAIN_SECONDS)
    if ruling is Ruling.DISCARD:
        return _plan_discard(seen, state.failure_reason)
    if ruling is Ruling.LOST:
        return TargetPlan((TargetStep.RECORD_LOSS,), f"the guest was lost on its way: {_explain_loss(seen)}")
    if ruling is Ruling.GIVE_UP:
        return TargetPlan((TargetStep.GIVE_UP,), again=AGAIN_SECONDS)
    if ruling is Ruling.ABORT and (seen.word == INCOMING_FAILED or seen.gone):
        # The source finds by itself that nobody takes its guest.
        return _plan_discard(seen, seen.said)
    if unwanted and not state.start_timestamp:
        # The source, which has not begun, says so, and then nothing is wanted here.
        return TargetPlan()
    way = _plan_way(state, seen)
    return way._replace(again=AGAIN_SECONDS) if seen.hears else way


def _explain_loss(seen: TargetSeen) -> str:
    if seen.word == INCOMING_FAILED:
        return seen.said or "its target has failed"
    if seen.word is None:
        return "the launcher that the guest came to has gone"
    return "the source ended without a word, so that what has come may be of an earlier moment"


def _plan_discard(seen: TargetSeen, reason: str) -> TargetPlan:
    if seen.word in _WAITING:
        # Also one that has failed does not go by itself.
        return TargetPlan((TargetStep.DISCARD,), reason, AGAIN_SECONDS)
    if seen.word is None and not seen.gone:
        # It may wait all the same.
        return TargetPlan(again=AGAIN_SECONDS)
    return TargetPlan((TargetStep.FORGET,), reason)


def _plan_way(state: MigrationState, seen: TargetSeen) -> TargetPlan:
    if state.source_state is not None and not state.source_state.node:
        # The sizes of its disks are not known before the other box has spoken.
        return TargetPlan(again=AGAIN_SECONDS)
    if seen.word in (INCOMING_EMPTY, INCOMING_READY) and seen.stuck and not state.target_node_address:
        # Nobody was told where to come to: the source has not begun, and does not begin.
        return TargetPlan((TargetStep.DISCARD,), seen.stuck, AGAIN_SECONDS)
    if seen.word == INCOMING_EMPTY:
        return TargetPlan((TargetStep.PREPARE,), again=AGAIN_SECONDS)
    if seen.word not in _COMING:
        return TargetPlan(again=AGAIN_SECONDS)
    steps = [TargetStep.EXPECT]
    if seen.address and seen.address != state.target_node_address:
        steps.append(TargetStep.ANNOUNCE)
    elif seen.word != INCOMING_READY and not state.target_node_domain_detected:
        steps.append(TargetStep.DETECT)
    return TargetPlan(tuple(steps), again=None if seen.address else AGAIN_SECONDS)
