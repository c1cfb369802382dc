"""The status of a VirtualMachineInstanceReplicaSet, and what it tells. Called by the set's loop. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kvedge.controller.replicas.replica_plan import is_ready
from kvedge.controller.scaling_status import find_pause_change, make_conditions
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.types.scaling.replica_sets import (
    VirtualMachineInstanceReplicaSet,
    VirtualMachineInstanceReplicaSetStatus,
)
from kvedge.resources.types.vmi import VirtualMachineInstance

FAILED_CREATE: Final = "FailedCreate"
FAILED_DELETE: Final = "FailedDelete"
_PAUSED: Final = ("Paused", "Controller got paused")


def next_status(
    replica_set: VirtualMachineInstanceReplicaSet,
    active: Sequence[VirtualMachineInstance],
    selector: LabelSelector | None,
    failure: tuple[str, str] | None,
    now: datetime,
) -> VirtualMachineInstanceReplicaSetStatus:
    """The status that follows.

    Args:
        replica_set: the set.
        active: the VMIs of it that count.
        selector: its selector; None where nothing can be done by it: what autoscalers count by stays then.
        failure: the reason and the message of what the server refused in this pass, or of why there is no selector.
        now: the time.
    """
    paused = _PAUSED if replica_set.spec.paused else None
    return VirtualMachineInstanceReplicaSetStatus(
        replicas=len(active),
        ready_replicas=sum(1 for vmi in active if is_ready(vmi)),
        conditions=make_conditions(replica_set.status.conditions, paused, failure, now),
        label_selector=replica_set.status.label_selector if selector is None else str(selector),
    )


def told_change(
    replica_set: VirtualMachineInstanceReplicaSet, status: VirtualMachineInstanceReplicaSetStatus
) -> tuple[str, str] | None:
    """The reason and the words of the event when the set was paused or goes on; None when neither."""
    change = find_pause_change(replica_set.status.conditions, status.conditions)
    if change is None:
        return None
    return ("SuccessfulPaused", "Paused") if change else ("SuccessfulResumed", "Resumed")
