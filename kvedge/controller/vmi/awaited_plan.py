"""Decides what becomes of a VMI whose guest comes from another box, until it is this one's.

Called by `vmi_plan`. Pure, as that is. No launcher is made that would start a guest: the Pod that it comes to is made
by its migration, and what comes is the handler's to judge. From then on the VMI is one like any other.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.claim_rules import claim_wait
from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import overhead_bytes
from kvedge.controller.vmi.launcher_pods import is_moving, list_active
from kvedge.controller.vmi.vmi_end_plan import plan_end
from kvedge.controller.vmi.vmi_move_plan import end_label, end_pods, min_seconds, plan_left_pods
from kvedge.controller.vmi.vmi_status import Facts, before_hand_over, with_phase
from kvedge.controller.vmi.vmi_view import PatchVmi, VmiPlan, VmiView, patch_vmi
from kvedge.resources.names import VMI_FINALIZER


def plan_awaited(view: VmiView, config: ClusterConfig, now: datetime) -> VmiPlan:
    """Decide what to do; the VMI is not final."""
    vmi = view.vmi
    if vmi.metadata.deletion_timestamp is not None:
        return _plan_deletion(view, now)
    if VMI_FINALIZER not in vmi.metadata.finalizers:
        return VmiPlan((PatchVmi({"metadata": {"finalizers": [*vmi.metadata.finalizers, VMI_FINALIZER]}}),))
    wait = claim_wait(vmi, view.claims)
    facts = Facts(overhead_bytes(vmi, config), claims=view.claims, failure=None if wait is None else wait.failure)
    status = before_hand_over(vmi, None, "WaitingForSync", facts, now)
    if is_moving(vmi):
        status = msgspec.structs.replace(status, active_pods=list_active(vmi, view.pods))
    left, again = plan_left_pods(view, now)
    later = None if wait is None else wait.again_after
    return VmiPlan((*left, *patch_vmi(vmi, status, end_label(vmi))), again_after=min_seconds(again, later))


def _plan_deletion(view: VmiView, now: datetime) -> VmiPlan:
    """Nobody wants the guest here: its source hears that, or, once it has left, the guest is lost with this VMI.

    As long as it is open, the handler here is asked what has come.
    """
    vmi = view.vmi
    if view.pods:
        return VmiPlan(end_pods(view))
    return plan_end(view, with_phase(vmi.status, "Failed", "", now), now)
