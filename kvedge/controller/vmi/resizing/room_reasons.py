"""Why a Pod has not got the size that was ordered for it, as its kubelet says it.

Called by the plan of a Pod's size. Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.meta import condition
from kvedge.resources.moves.pod_room import (
    DEFERRED,
    INFEASIBLE,
    KEEPS_FAILING,
    NO_CAPACITY,
    NODE_TOO_SMALL,
    RESIZE_FAILED,
    RESIZE_IN_PROGRESS,
    RESIZE_PENDING,
    RESIZING,
    with_reason,
)
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import PodRoom, VirtualMachineInstance
from kvedge.runtime.clock import rfc3339, seconds_since

# A kubelet tries again each minute or so: what fails for longer hardly comes to work by itself.
KEEPS_FAILING_SECONDS: Final = 180.0
_LARGER_NODE: Final = (
    "if no node is so large, as on a box that is alone, take the change of the VM back: it would not start again"
)
OTHER_POD: Final = (
    "the guest gets it in another Pod, after a restart of the VM, or by a migration, which LiveMigrate in"
    " workloadUpdateStrategy of the KubeVirt object lets happen by itself"
)


def explain_room(room: PodRoom, vmi: VirtualMachineInstance, pod: Pod, now: datetime) -> PodRoom:
    """The room with why the Pod has not got its size, and what becomes of it; nothing while it is just on its way."""
    found = condition(pod.status.conditions, RESIZE_PENDING) or condition(pod.status.conditions, RESIZE_IN_PROGRESS)
    if found is None or found.status != "True" or (found.type == RESIZE_IN_PROGRESS and found.reason != "Error"):
        return with_reason(room, vmi, RESIZING, "")
    if found.type == RESIZE_IN_PROGRESS:
        return _explain_failure(room, vmi, found.message, now)
    if found.reason == INFEASIBLE:
        text = f"the guest's Pod cannot be resized on its node: {found.message}"
        if NO_CAPACITY in found.message:
            return with_reason(room, vmi, NODE_TOO_SMALL, f"{text}; {_LARGER_NODE}; {OTHER_POD}")
        return with_reason(room, vmi, INFEASIBLE, f"{text}; {OTHER_POD}")
    text = "the guest's node has no room for a larger Pod now, which is resized as soon as there is some, or the VM is"
    return with_reason(room, vmi, DEFERRED, f"{text} migrated: {found.message}")


def _explain_failure(room: PodRoom, vmi: VirtualMachineInstance, why: str, now: datetime) -> PodRoom:
    """For how long this order fails: the node's condition may be as old as one before, which failed too."""
    is_known = room.reason in (RESIZE_FAILED, KEEPS_FAILING)
    since = room.failing_since if is_known and room.failing_since else rfc3339(now)
    text = f"the node could not resize the guest's Pod, and tries again: {why}"
    lasts = seconds_since(since, now)
    if lasts is not None and lasts >= KEEPS_FAILING_SECONDS:
        return with_reason(room, vmi, KEEPS_FAILING, f"{text}; {OTHER_POD}", since)
    return with_reason(room, vmi, RESIZE_FAILED, text, since)
