"""Whether this box has room for a Pod that asks for more, in the kubelet's words."""

from __future__ import annotations

from kvedge.resources.types.core import Pod
from kvedge.standalone.agent.pod.pod_resizing import Resizing
from tests.support.builders import plain_pod


def a_pod(uid: str) -> Pod:
    pod = plain_pod("compute")
    pod.metadata.uid, pod.spec.node_name = uid, "box"
    return pod


def reason(alone: list[str], beside: list[str]) -> str:
    resizing = Resizing(lambda pod, others: beside if others else alone, lambda: [a_pod("a"), a_pod("b")])
    refused = resizing.refuse(a_pod("a"))
    return "" if refused is None else f"{refused.type} {refused.reason}: {refused.message}"


def test_what_never_fits_is_infeasible_and_what_fits_later_is_deferred() -> None:
    few = ["Insufficient memory"]
    assert reason(few, few) == "PodResizePending Infeasible: Node didn't have enough capacity: Insufficient memory"
    assert reason([], few) == "PodResizePending Deferred: Node didn't have enough resource: Insufficient memory"
    assert reason([], []) == ""
