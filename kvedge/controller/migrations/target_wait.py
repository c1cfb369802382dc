"""How long the Pod that a guest is to come to may take to start.

Called by the migration's plan. Pure. Both limits are KubeVirt's.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from kvedge.controller.vmi.launcher_pod_status import start_failure
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Pod
from kvedge.runtime.clock import seconds_since

UNSCHEDULABLE_SECONDS: Final = 300.0
PENDING_SECONDS: Final = 900.0


class Wait(NamedTuple):
    """For how long it is waited on, what is told of it now, or why it is given up."""

    seconds: float = 0.0
    warning: str = ""
    failure: str = ""


def find_wait(pod: Pod, vmi: str, now: datetime) -> Wait:
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
    if is_unschedulable and passed >= UNSCHEDULABLE_SECONDS:
        return Wait(failure=f"unschedulable pod {where} timeout period exceeded{reason}")
    if passed >= PENDING_SECONDS:
        return Wait(failure=f"pending pod {where} timeout period exceeded{reason}")
    limit = UNSCHEDULABLE_SECONDS if passed < UNSCHEDULABLE_SECONDS else PENDING_SECONDS
    text = f"Migration target pod for VMI [{meta.namespace}/{vmi}] is currently unschedulable."
    return Wait(limit - passed, text if is_unschedulable else "")
