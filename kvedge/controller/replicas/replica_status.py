"""The status of a VirtualMachineInstanceReplicaSet, and what it tells.

Called by the set's loop. Pure. A failure's condition keeps the words that it began with, as in KubeVirt: a change of
the status wakes the loop, and words that change with each try would have it try without a pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kvedge.controller.replicas.replica_plan import is_ready
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.scaling.replica_sets import (
    VirtualMachineInstanceReplicaSet,
    VirtualMachineInstanceReplicaSetStatus,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339

PAUSED: Final = "ReplicaPaused"
FAILURE: Final = "ReplicaFailure"
FAILED_CREATE: Final = "FailedCreate"
FAILED_DELETE: Final = "FailedDelete"
BAD_SELECTOR: Final = "SelectorNotUsable"
_PAUSED_REASON: Final = "Paused"
_LONGEST_MESSAGE: Final = 1024


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
    conditions = []
    if replica_set.spec.paused:
        conditions.append(_keep_time(replica_set, Condition(type=PAUSED, status="True", reason=_PAUSED_REASON), now))
    if failure is not None:
        reason, message = failure
        text = message[:_LONGEST_MESSAGE]
        conditions.append(
            _keep_time(replica_set, Condition(type=FAILURE, status="True", reason=reason, message=text), now)
        )
    return VirtualMachineInstanceReplicaSetStatus(
        replicas=len(active),
        ready_replicas=sum(1 for vmi in active if is_ready(vmi)),
        conditions=conditions,
        label_selector=replica_set.status.label_selector if selector is None else str(selector),
    )


def status_body(
    replica_set: VirtualMachineInstanceReplicaSet, status: VirtualMachineInstanceReplicaSetStatus
) -> JsonObject:
    """The merge patch that brings the status there; empty when it is there."""
    body = merge_difference(encode(replica_set.status), encode(status))
    return {"status": body} if body else {}


def told_change(
    replica_set: VirtualMachineInstanceReplicaSet, status: VirtualMachineInstanceReplicaSetStatus
) -> tuple[str, str] | None:
    """The reason and the words of the event when the set was paused or goes on; None when neither."""
    was, is_now = (condition(each.conditions, PAUSED) is not None for each in (replica_set.status, status))
    if was == is_now:
        return None
    return ("SuccessfulPaused", "Paused") if is_now else ("SuccessfulResumed", "Resumed")


def _keep_time(replica_set: VirtualMachineInstanceReplicaSet, wanted: Condition, now: datetime) -> Condition:
    known = condition(replica_set.status.conditions, wanted.type)
    if known is not None and known.reason == wanted.reason:
        return known
    if wanted.type == PAUSED:
        wanted.message = "Controller got paused"
    wanted.last_transition_time = rfc3339(now)
    return wanted
