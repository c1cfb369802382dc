"""What the mark of an eviction shows on a VMI and on its launcher Pod, while its guest is to leave its node.

Called by the status and the plan of VMIs. Pure. The descheduler reads the annotation, and waits while it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kvedge.controller.kubevirt.condition_rules import with_condition, without_conditions
from kvedge.resources.codec import JsonObject
from kvedge.resources.evacuation import EVICTION_IN_PROGRESS, EVICTION_REQUESTED, is_marked
from kvedge.resources.meta import Condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance


def with_eviction(conditions: Sequence[Condition], vmi: VirtualMachineInstance, now: datetime) -> list[Condition]:
    """The conditions with EvictionRequested, which is there as long as the mark is."""
    if not is_marked(vmi):
        return without_conditions(conditions, {EVICTION_REQUESTED})
    text = "VMI is marked for eviction"
    wanted = Condition(type=EVICTION_REQUESTED, status="True", reason=EVICTION_REQUESTED, message=text)
    return with_condition(conditions, wanted, now)


def plan_annotation(vmi: VirtualMachineInstance, pod: Pod) -> JsonObject | None:
    """The merge patch of a launcher Pod that says whether its eviction is under way; None when it says so already."""
    if is_marked(vmi) == (EVICTION_IN_PROGRESS in pod.metadata.annotations):
        return None
    return {"metadata": {"annotations": {EVICTION_IN_PROGRESS: "true" if is_marked(vmi) else None}}}
