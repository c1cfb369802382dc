"""The status of a VirtualMachinePool, and what it tells.

Called by the pool's loop. Pure. A failure's condition keeps the words that it began with: see `replica_status`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.scaling.pools import VirtualMachinePool, VirtualMachinePoolStatus
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import rfc3339

PAUSED: Final = "ReplicaPaused"
FAILURE: Final = "ReplicaFailure"
SCALE_OUT: Final = "FailedScaleOut"
SCALE_IN: Final = "FailedScaleIn"
UPDATE: Final = "FailedUpdate"
PRUNING: Final = "FailedRevisionPruning"
_LONGEST_MESSAGE: Final = 1024


def next_status(
    pool: VirtualMachinePool,
    vms: Sequence[VirtualMachine],
    selector: LabelSelector,
    failure: tuple[str, str] | None,
    now: datetime,
) -> VirtualMachinePoolStatus:
    """The status that follows; `failure` is the reason and the message of what the server refused in this pass."""
    wanted = []
    if pool.spec.paused:
        wanted.append(
            Condition(type=PAUSED, status="True", reason="SuccessfulPaused", message="Pool controller is paused")
        )
    if failure is not None:
        reason, message = failure
        wanted.append(Condition(type=FAILURE, status="True", reason=reason, message=message[:_LONGEST_MESSAGE]))
    return VirtualMachinePoolStatus(
        replicas=len(vms),
        ready_replicas=sum(1 for vm in vms if _is_ready(vm)),
        conditions=[_keep_time(pool, item, now) for item in wanted],
        label_selector=str(selector),
    )


def status_body(pool: VirtualMachinePool, status: VirtualMachinePoolStatus) -> JsonObject:
    """The merge patch that brings the status there; empty when it is there."""
    body = merge_difference(encode(pool.status), encode(status))
    return {"status": body} if body else {}


def told_change(pool: VirtualMachinePool, status: VirtualMachinePoolStatus) -> tuple[str, str] | None:
    """The reason and the words of the event when the pool was paused or goes on; None when neither."""
    was, is_now = (condition(each.conditions, PAUSED) is not None for each in (pool.status, status))
    if was == is_now:
        return None
    return ("SuccessfulPaused", "Pool is paused") if is_now else ("SuccessfulResumed", "Pool is unpaused")


def _is_ready(vm: VirtualMachine) -> bool:
    ready = condition(vm.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


def _keep_time(pool: VirtualMachinePool, wanted: Condition, now: datetime) -> Condition:
    known = condition(pool.status.conditions, wanted.type)
    if known is not None and known.reason == wanted.reason:
        return known
    wanted.last_transition_time = rfc3339(now)
    return wanted
