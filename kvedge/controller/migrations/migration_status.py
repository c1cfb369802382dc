"""The status of a migration: the phase that it enters, and its conditions.

Called by the migration's plan. Pure.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from kvedge.controller.kubevirt.condition_rules import with_condition, without_conditions
from kvedge.controller.migrations.migration_view import WAITING
from kvedge.resources.meta import Condition
from kvedge.resources.types.migrations import (
    MigrationPhase,
    MigrationPhaseTransition,
    MigrationState,
    VirtualMachineInstanceMigrationStatus,
)
from kvedge.runtime.clock import rfc3339


def with_migration_phase(
    status: VirtualMachineInstanceMigrationStatus,
    phase: MigrationPhase,
    now: datetime,
    state: MigrationState | None = None,
) -> VirtualMachineInstanceMigrationStatus:
    """The status in another phase, which waits for nothing; with `state`, what the VMI says of it is kept."""
    entry = MigrationPhaseTransition(phase=phase, phase_transition_timestamp=rfc3339(now))
    return msgspec.structs.replace(
        status,
        phase=phase,
        conditions=without_conditions(status.conditions, {WAITING}),
        phase_transition_timestamps=[*status.phase_transition_timestamps, entry],
        migration_state=status.migration_state if state is None else state,
    )


def with_true(
    status: VirtualMachineInstanceMigrationStatus, kind: str, now: datetime, message: str = ""
) -> VirtualMachineInstanceMigrationStatus:
    """The status with a condition that holds."""
    wanted = Condition(type=kind, status="True", message=message)
    return msgspec.structs.replace(status, conditions=with_condition(status.conditions, wanted, now))


def with_wait(
    status: VirtualMachineInstanceMigrationStatus, text: str, now: datetime
) -> VirtualMachineInstanceMigrationStatus:
    """The status of a migration that waits for this, or for nothing when it is empty."""
    if text:
        return with_true(status, WAITING, now, text)
    return msgspec.structs.replace(status, conditions=without_conditions(status.conditions, {WAITING}))
