"""The status of a migration: the phase that it enters, and its conditions.

Called by the migration's plan. Pure.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from kvedge.controller.kubevirt.condition_rules import with_condition
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
    """The status in another phase; with `state`, what the VMI says of it is kept."""
    entry = MigrationPhaseTransition(phase=phase, phase_transition_timestamp=rfc3339(now))
    return msgspec.structs.replace(
        status,
        phase=phase,
        phase_transition_timestamps=[*status.phase_transition_timestamps, entry],
        migration_state=status.migration_state if state is None else state,
    )


def with_true(
    status: VirtualMachineInstanceMigrationStatus, kind: str, now: datetime, message: str = ""
) -> VirtualMachineInstanceMigrationStatus:
    """The status with a condition that holds."""
    wanted = Condition(type=kind, status="True", message=message)
    return msgspec.structs.replace(status, conditions=with_condition(status.conditions, wanted, now))
