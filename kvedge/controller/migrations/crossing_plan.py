"""What the controller decides of a guest that moves between two boxes: whether it may begin, and what both sides know.

Called by the migrations' plan. Pure. Each box has a migration and a VMI of its own; what is decided in between is the
handlers', as within a cluster. Here the source's VM is held from before its guest begins to move until it is known that
it stays, and halted once the other box has taken it.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.migrations.migration_view import MigrationPlan, MigrationView, SendAway
from kvedge.controller.migrations.target_attachments import find_unsettled
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi.launcher_pods import launcher_of
from kvedge.resources.meta import condition
from kvedge.resources.moves.crossing import TARGET_IS_LOST, is_awaited
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MigrationState, PeerState, VirtualMachineInstanceMigration

_LOOK_SECONDS: Final = 1.0
LOST_BY_WORD: Final = "the guest was lost on its way: a user has said that the other box is lost for good"


def plan_sending(view: MigrationView) -> MigrationPlan:
    """Have the guest leave; the VMI is ready to begin."""
    vmi, send_to = view.vmi, view.migration.spec.send_to
    assert vmi is not None
    assert send_to is not None
    source = launcher_of(vmi, view.pods)
    if source is None or has_ended(source) or find_unsettled(vmi):
        return MigrationPlan(again_after=_LOOK_SECONDS)
    state = MigrationState(
        migration_uid=view.migration.job,
        source_node=vmi.status.node_name,
        source_pod=source.metadata.name,
        target_state=PeerState(sync_address=send_to.connect_url),
    )
    return MigrationPlan((SendAway(state, place_of(view.migration)),))


def is_declared_lost(view: MigrationView) -> bool:
    """Whether a user vouches that a guest which has left, and which nobody has taken, runs nowhere."""
    state = view.state
    return (
        state is not None
        and state.is_open
        and state.target_state is not None
        and state.source_node_domain_gone_timestamp is not None
        and state.target_taken_timestamp is None
        and view.migration.metadata.annotations.get(TARGET_IS_LOST) == "true"
    )


def explain_reception(view: MigrationView) -> str:
    """What keeps the Pod from being made that a guest of another box comes to; empty when nothing does."""
    vmi = view.vmi
    assert vmi is not None
    if not is_awaited(vmi):
        return "the VMI has a guest of its own: only a VM with runStrategy WaitAsReceiver receives one"
    if vmi.status.phase != "WaitingForSync":
        return "the VMI does not wait for its guest yet"
    synchronized = condition(vmi.status.conditions, "Synchronized")
    if synchronized is not None and synchronized.status == "False":
        return synchronized.message
    state = vmi.status.migration_state
    if state is not None and state.is_open:
        return "another migration of the VMI is open"
    left = next((pod for pod in view.pods if not has_ended(pod)), None)
    return "" if left is None else f"pod {left.metadata.name} of an earlier migration has not ended yet"


def reception_state(migration: VirtualMachineInstanceMigration, target: Pod) -> MigrationState:
    """What the handler on the target's node begins with."""
    return MigrationState(
        migration_uid=migration.job,
        target_node=target.spec.node_name,
        target_pod=target.metadata.name,
        source_state=PeerState(),
    )


def may_free(view: MigrationView) -> bool:
    """Whether a VM may start again here: its guest has not begun to leave, or is known to have stayed or to be lost.

    Where a VMI has gone, or says nothing of this migration any more, nobody knows: its VM stays held.
    """
    state = view.state
    if state is not None:
        return state.failed
    return view.vmi is not None and view.migration.status.phase in ("", "Pending")


def place_of(migration: VirtualMachineInstanceMigration) -> str:
    """What people call the box that a guest leaves for."""
    return "" if migration.spec.send_to is None else migration.spec.send_to.connect_url.rpartition(":")[0]
