"""What the controller sees of one VMI, and what it can do: the words that its plans and its loop share.

Made by `vmi_loop`, read and answered by `vmi_plan` and `vmi_end_plan`, done by `vmi_steps`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, field

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vmi.claim_rules import ClaimView
from kvedge.controller.vmi.launcher_pod_status import disruption
from kvedge.controller.vmi.vmi_status import (
    NODE_NOT_READY,
    POD_GONE,
    READY,
)
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceStatus

# The controller writes a VMI in these phases.
OUR_PHASES: Final = frozenset({"", "Pending", "Scheduling"})
# A VMI's user gets an event for these reasons of its Ready condition.
_EVENT_REASONS: Final = frozenset({NODE_NOT_READY, POD_GONE})


class CreatePod(Struct, frozen=True):
    """Start the launcher; the loop does so only if the server still has the VMI as it was read."""

    pod: Pod


class CreateClaim(Struct, frozen=True):
    """Make the claim that keeps the VM's own state."""

    claim: PersistentVolumeClaim


class PatchVmi(Struct, frozen=True):
    """Change the VMI; `body` is a merge patch for the version that was read."""

    body: JsonObject


class PatchPodStatus(Struct, frozen=True):
    """Set the Pod's readiness gate; `body` is a strategic merge patch."""

    pod: Pod
    body: JsonObject


class PatchPod(Struct, frozen=True):
    """Change the launcher's Pod itself; `body` is a merge patch for the version that was read."""

    pod: Pod
    body: JsonObject


class ResizePod(Struct, frozen=True):
    """Give the launcher's Pod another size while it runs; `body` is a strategic merge patch.

    `keeping_memory` is given to a server that lowers no memory limit; None where `body` lowers none.
    """

    pod: Pod
    body: JsonObject
    keeping_memory: JsonObject | None = None


class DeletePod(Struct, frozen=True):
    """End a launcher: it gets SIGTERM and the Pod's grace period."""

    pod: Pod


class ForgetPod(Struct, frozen=True):
    """Take a launcher's Pod off the API, with those of its hotplugged volumes: its node has ended what ran in it."""

    pod: Pod


class ConfirmPodLost(Struct, frozen=True):
    """Ask the server for the Pods of this VMI before the actions after it: a cache may be behind.

    `known` are the UIDs of the Pods that were planned with.
    """

    known: frozenset[str] = frozenset()


VmiAction: TypeAlias = (
    CreatePod | CreateClaim | PatchVmi | PatchPod | PatchPodStatus | ResizePod | DeletePod | ForgetPod | ConfirmPodLost
)


class VmiPlan(Struct, frozen=True):
    """Actions in order, what a user should be told, and in how many seconds to look again when nothing changes."""

    actions: tuple[VmiAction, ...] = ()
    warning: Condition | None = None
    again_after: float | None = None


class VmiView(Struct, frozen=True):
    """What the controller sees of one VMI."""

    vmi: VirtualMachineInstance
    # The Pods whose controller is this very VMI.
    pods: Sequence[Pod]
    # For how long no Pod that may have the guest has been running, or about to run.
    podless_seconds: float = 0.0
    # Pods of VMIs that had the same name before.
    earlier_pods: Sequence[Pod] = ()
    # The node of the VMI, when it is known.
    node: NodeState | None = None
    # Whether the launcher's Pod reported its end before it was gone. A Pod that somebody deletes by force makes no such
    # report, and its guest runs on.
    was_ended: bool = False
    claims: ClaimView = field(default_factory=ClaimView)
    # Likewise of the Pod that the guest is to come to, while a migration is open; and that Pod's node.
    was_target_ended: bool = False
    target_node: NodeState | None = None
    # The nodes that have ended by themselves whatever of this VMI ran there.
    fenced_nodes: frozenset[str] = frozenset()
    # By which its guest is to be reached over vsock.
    vsock_cid: int | None = None
    # In Hz: what the guest is told of its node's counter, if it counts on that.
    tsc_frequency: int | None = None
    # Whether the server has refused to lower a memory limit of a Pod that runs.
    keeps_limits: bool = False

    @property
    def known(self) -> frozenset[str]:
        """The UIDs of the Pods that are seen."""
        return frozenset(pod.metadata.uid for pod in self.pods)


def name_end(pod: Pod | None) -> str:
    """The reason of a run that failed with this Pod."""
    if pod is None:
        return "PodLost"
    return "PodTerminating" if pod.metadata.deletion_timestamp is not None else f"Pod{pod.status.phase}"


def find_news(vmi: VirtualMachineInstance, pod: Pod | None, status: VirtualMachineInstanceStatus) -> Condition | None:
    """The change of the Ready condition that the user gets as an event: a lost node or Pod, a disruption."""
    old, new = condition(vmi.status.conditions, READY), condition(status.conditions, READY)
    if new is None or (old is not None and (old.reason, old.message) == (new.reason, new.message)):
        return None
    if new.reason in _EVENT_REASONS:
        return new
    by = None if pod is None else disruption(pod)
    if by is None:
        return None
    return msgspec.structs.replace(new, reason=by.reason or new.reason)


def patch_vmi(
    vmi: VirtualMachineInstance, status: VirtualMachineInstanceStatus, more: JsonObject | None = None
) -> tuple[PatchVmi, ...]:
    """The patch to this status, and to what else is to change; none when nothing does."""
    changes = merge_difference(encode(vmi.status), encode(status))
    body = {**(more or {}), **({"status": changes} if changes else {})}
    return (PatchVmi(body),) if body else ()
