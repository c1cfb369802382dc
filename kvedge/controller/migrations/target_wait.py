"""How long the Pod that a guest is to come to may take to start.

Called by the migration's plan. Pure. The limits for a Pod are KubeVirt's, as is that for a launcher's preparation:
there the launcher ends itself after a time up to this.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from kvedge.controller.vmi.launcher_pod_status import start_failure
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import (
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationStatus,
)
from kvedge.resources.values.whole_numbers import INT32, whole_number
from kvedge.runtime.clock import seconds_since

UNSCHEDULABLE_SECONDS: Final = 300.0
PENDING_SECONDS: Final = 900.0
# KubeVirt's annotations of a migration that change these two.
UNSCHEDULABLE_ANNOTATION: Final = "kubevirt.io/migrationUnschedulablePodTimeoutSeconds"
PENDING_ANNOTATION: Final = "kubevirt.io/migrationPendingPodTimeoutSeconds"
# The target's handler gives up earlier by itself; this is for one that is away.
PREPARE_SECONDS: Final = 360.0


class Wait(NamedTuple):
    """For how long it is waited on, what is told of it now, or why it is given up."""

    seconds: float = 0.0
    warning: str = ""
    failure: str = ""


class Patience(NamedTuple):
    """How many seconds a Pod may take that no node can take, and any other."""

    unschedulable: float = UNSCHEDULABLE_SECONDS
    pending: float = PENDING_SECONDS


USUAL: Final = Patience()


def patience_of(migration: VirtualMachineInstanceMigration) -> Patience:
    """KubeVirt's times, unless the migration's annotations name others; what is no number counts for nothing."""
    given = migration.metadata.annotations
    unschedulable = whole_number(given.get(UNSCHEDULABLE_ANNOTATION, ""), (0, INT32[1]))
    pending = whole_number(given.get(PENDING_ANNOTATION, ""), (0, INT32[1]))
    return Patience(
        UNSCHEDULABLE_SECONDS if unschedulable is None else unschedulable,
        PENDING_SECONDS if pending is None else pending,
    )


def find_wait(pod: Pod, vmi: str, now: datetime, patience: Patience = USUAL) -> Wait:
    """What to do about a Pod that is not ready."""
    meta = pod.metadata
    passed = max(0.0, seconds_since(meta.creation_timestamp, now) or 0.0)
    scheduled = condition(pod.status.conditions, "PodScheduled")
    is_unschedulable = (
        not pod.spec.node_name
        and scheduled is not None
        and scheduled.status == "False"
        and scheduled.reason == "Unschedulable"
    )
    why = start_failure(pod)
    said = scheduled.message if is_unschedulable and scheduled is not None else why.message if why is not None else ""
    reason = f": {said}" if said else ""
    where = f"{meta.namespace}/{meta.name}"
    if is_unschedulable and passed >= patience.unschedulable:
        return Wait(failure=f"unschedulable pod {where} timeout period exceeded{reason}")
    if passed >= patience.pending:
        return Wait(failure=f"pending pod {where} timeout period exceeded{reason}")
    limits = (patience.unschedulable, patience.pending)
    limit = min(limit for limit in limits if limit > passed)
    text = f"Migration target pod for VMI [{meta.namespace}/{vmi}] is currently unschedulable."
    return Wait(limit - passed, text if is_unschedulable else "")


def seconds_to_prepare(status: VirtualMachineInstanceMigrationStatus, now: datetime) -> float | None:
    """For how long the target's handler may still get ready; None where nobody knows since when it does."""
    entered = [entry for entry in status.phase_transition_timestamps if entry.phase == "PreparingTarget"]
    passed = seconds_since(entered[-1].phase_transition_timestamp, now) if entered else None
    return None if passed is None else PREPARE_SECONDS - passed
