"""Whether VMs can count on a node now, and what has to be written on it.

Called by the node loop, and through it by the plans of VMIs. Pure.

Nothing here ends a run, and nothing says that a guest runs no more: that is only known when its Pod's object has gone
or its kubelet has reported it ended. A node that is lost keeps its Pods: Kubernetes asks them to end after five
minutes (taint eviction), and there they stay until the node is back, or somebody has said that it is dead by deleting
its Node or by the taint `node.kubernetes.io/out-of-service`. Then Kubernetes' Pod garbage collector removes them. One
that Medik8s has reset is as good as that.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.types.core import Node

# KubeVirt's limit for a handler that says nothing, and how often it is looked at again.
UNRESPONSIVE_SECONDS: Final = 300.0
LOOK_SECONDS: Final = 60.0
UNRESPONSIVE: Final = "NodeUnresponsive"
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class NodeState(Struct, frozen=True):
    """What the VMIs of a node must know of it."""

    name: str
    # Why its Pods may be running without anybody knowing; empty while its kubelet reports.
    trouble: str = ""
    # Its handler has not been heard of for too long, or there is none.
    unresponsive: bool = False
    # An administrator has said that it is down and stays so.
    out_of_service: bool = False
    # Of one VMI alone: the node has ended its guest by itself.
    is_fenced: bool = False
    # Of one VMI alone: what ends the wait for a node in trouble, where that is another thing than for all.
    waits_for: str = ""

    @property
    def is_given_up(self) -> bool:
        """Whether somebody who knows has said that nothing of the VMI runs there."""
        return self.out_of_service or self.is_fenced


class NodePlan(Struct, frozen=True):
    """A merge patch for the version that was read, an event's message, and when to look again."""

    patch: JsonObject | None = None
    warning: str = ""
    again_after: float | None = None


def node_state(node: Node, silent_seconds: float | None, *, is_reset: bool = False) -> NodeState:
    """What a node is; `silent_seconds` is for how long its heartbeat has not changed, None without any.

    `is_reset` says that somebody who resets nodes has reset it: that counts as long as its kubelet says nothing.
    """
    trouble = _trouble(node)
    return NodeState(
        name=node.metadata.name,
        trouble=trouble,
        unresponsive=silent_seconds is None or silent_seconds >= UNRESPONSIVE_SECONDS,
        out_of_service=any(taint.get("key") == _OUT_OF_SERVICE for taint in node.spec.taints)
        or (is_reset and trouble != ""),
    )


def plan_node(node: Node, silent_seconds: float | None) -> NodePlan:
    """What to do. The handler takes the label back by its next heartbeat."""
    if silent_seconds is None:
        # A node without a handler of ours.
        return NodePlan()
    if silent_seconds < UNRESPONSIVE_SECONDS:
        return NodePlan(again_after=min(LOOK_SECONDS, UNRESPONSIVE_SECONDS - silent_seconds))
    # Without the label no VM comes there either: kvedge was uninstalled, or somebody has said that it is gone for good.
    if node.metadata.labels.get(SCHEDULABLE) != "true":
        return NodePlan(again_after=LOOK_SECONDS)
    return NodePlan(
        patch={"metadata": {"labels": {SCHEDULABLE: "false"}}},
        warning="virt-handler is not responsive, marking node as unresponsive",
        again_after=LOOK_SECONDS,
    )


def _trouble(node: Node) -> str:
    ready = next((item for item in node.status.conditions if item.get("type") == "Ready"), None)
    # A node that has not said anything yet has no Pods either.
    if ready is None or ready.get("status") == "True":
        return ""
    return str(ready.get("message") or ready.get("reason") or f"its condition Ready is {ready.get('status')}")
