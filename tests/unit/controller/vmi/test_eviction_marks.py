"""A VMI and its launcher Pod show that an eviction has asked for the guest to leave, as long as it has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kvedge.controller.vmi.eviction_marks import plan_annotation, with_eviction
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_pod, vmi_with

NOW = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)
IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"


def a_run(**status: Any) -> VirtualMachineInstance:
    return vmi_with({}, {"phase": "Running", "nodeName": "node-1", **status}, name="web", uid="run-1")


def test_the_condition_comes_and_goes_with_the_mark() -> None:
    marked = a_run(evacuationNodeName="node-1")
    conditions = with_eviction([], marked, NOW)
    (shown,) = conditions
    assert (shown.type, shown.status, shown.reason) == ("EvictionRequested", "True", "EvictionRequested")
    assert shown.message == "VMI is marked for eviction"
    assert with_eviction(conditions, marked, NOW.replace(hour=4)) == conditions
    assert with_eviction(conditions, a_run(), NOW) == []


def test_the_pods_annotation_comes_and_goes_with_the_mark_and_is_written_once() -> None:
    pod = a_pod(a_run(), "Running", "node-1")
    assert plan_annotation(a_run(), pod) is None
    written = plan_annotation(a_run(evacuationNodeName="node-1"), pod)
    assert written == {"metadata": {"annotations": {IN_PROGRESS: "true"}}}
    pod.metadata.annotations[IN_PROGRESS] = "true"
    assert plan_annotation(a_run(evacuationNodeName="node-1"), pod) is None
    assert plan_annotation(a_run(), pod) == {"metadata": {"annotations": {IN_PROGRESS: None}}}
