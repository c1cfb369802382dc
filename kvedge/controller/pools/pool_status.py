"""The status of a VirtualMachinePool, and what it tells. Called by the pool's loop. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kvedge.controller.scaling_status import find_pause_change, make_conditions
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.meta import condition
from kvedge.resources.types.scaling.pools import VirtualMachinePool, VirtualMachinePoolStatus
from kvedge.resources.types.vm import VirtualMachine

SCALE_OUT: Final = "FailedScaleOut"
SCALE_IN: Final = "FailedScaleIn"
UPDATE: Final = "FailedUpdate"
PRUNING: Final = "FailedRevisionPruning"
_PAUSED: Final = ("SuccessfulPaused", "Pool controller is paused")


def next_status(
    pool: VirtualMachinePool,
    vms: Sequence[VirtualMachine],
    selector: LabelSelector | None,
    failure: tuple[str, str] | None,
    now: datetime,
) -> VirtualMachinePoolStatus:
    """The status that follows.

    `failure` is the reason and the message of what the server refused in this pass, or of why there is no selector:
    what autoscalers count by stays then.
    """
    paused = _PAUSED if pool.spec.paused else None
    return VirtualMachinePoolStatus(
        replicas=len(vms),
        ready_replicas=sum(1 for vm in vms if _is_ready(vm)),
        conditions=make_conditions(pool.status.conditions, paused, failure, now),
        label_selector=pool.status.label_selector if selector is None else str(selector),
    )


def told_change(pool: VirtualMachinePool, status: VirtualMachinePoolStatus) -> tuple[str, str] | None:
    """The reason and the words of the event when the pool was paused or goes on; None when neither."""
    change = find_pause_change(pool.status.conditions, status.conditions)
    if change is None:
        return None
    return ("SuccessfulPaused", "Pool is paused") if change else ("SuccessfulResumed", "Pool is unpaused")


def _is_ready(vm: VirtualMachine) -> bool:
    ready = condition(vm.status.conditions, "Ready")
    return ready is not None and ready.status == "True"
