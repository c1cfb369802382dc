"""Why a migration has failed, as far as objects tell: the first of KubeVirt's tests that holds.

Called by the migration's plan. Pure. What the handlers have recorded comes first here: a VMI that is over because its
migration failed says why.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.migrations.migration_view import HANDED_OVER, MigrationView
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration

NO_VMI: Final = "Migration failed because vmi does not exist."
VMI_ENDED: Final = "Migration failed vmi shutdown during migration."
CANCELED: Final = "Migration failed due to being canceled"
TARGET_ENDED: Final = "Migration failed because target pod shutdown during migration"
TARGET_GONE: Final = "Migration target pod was removed during active migration."
STATE_GONE: Final = "VMI's migration state was cleared during the active migration."
TAKEN_OVER: Final = "VMI's migration state was taken over by another migration job during active migration."
SOURCE_FAILED: Final = "source node reported migration failed"
NOT_MOVED: Final = "VMI's migration state says that its migration has completed, but the VMI is on node {}."
NOT_ELIGIBLE: Final = "VMI is not eligible for migration because another migration job is in progress."


def find_failure(view: MigrationView, target: Pod | None) -> str:
    """Why it has failed; empty when it has not."""
    vmi, state, phase = view.vmi, view.state, view.migration.status.phase
    if vmi is None:
        return NO_VMI
    if state is not None and state.failed:
        return f"{SOURCE_FAILED}: {state.failure_reason}" if state.failure_reason else SOURCE_FAILED
    if vmi.is_final:
        return VMI_ENDED
    if phase in HANDED_OVER and state is None:
        return STATE_GONE if vmi.status.migration_state is None else TAKEN_OVER
    if state is not None and state.completed and not state.has_left_box:
        # The guest has moved only with the node that the VMI is on: this is nobody's word.
        return NOT_MOVED.format(vmi.status.node_name)
    if state is not None:
        # From here on only the handlers know where the guest is.
        return ""
    if view.migration.metadata.deletion_timestamp is not None:
        return CANCELED
    return find_target_failure(view.migration, target) or ("" if phase else _find_rival(view))


def find_target_failure(migration: VirtualMachineInstanceMigration, target: Pod | None) -> str:
    """What is wrong with the Pod that the guest is to come to."""
    if target is not None and (has_ended(target) or target.metadata.deletion_timestamp is not None):
        return TARGET_ENDED
    is_due = migration.status.phase not in ("", "Pending")
    return TARGET_GONE if is_due and target is None else ""


def _find_rival(view: MigrationView) -> str:
    """Another migration of the VMI that is under way, or that was there before."""
    assert view.vmi is not None
    state, own = view.vmi.status.migration_state, _age(view.migration)
    if state is not None and state.is_open:
        return NOT_ELIGIBLE
    rivals = (each for each in view.others if not each.is_final)
    return NOT_ELIGIBLE if any(each.status.phase or _age(each) < own for each in rivals) else ""


def _age(migration: VirtualMachineInstanceMigration) -> tuple[str, str]:
    return (migration.metadata.creation_timestamp or "", migration.metadata.uid)
