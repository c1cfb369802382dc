"""The next agent gives a Pod that waits for more what was set aside for it, not what it asks for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.resources.types.core import Pod
from kvedge.standalone.agent.pod.local_pods import LocalPod, LocalPods
from kvedge.standalone.agent.pod.pod_plan import LimitCpu, MakePlace, Step
from kvedge.standalone.agent.pod.pod_record import new_record
from kvedge.standalone.agent.pod.pod_steps import PodSteps
from tests.support.builders import plain_pod


class Places:
    """Notes for how large a Pod it is asked for limits."""

    def __init__(self) -> None:
        self.sizes: list[Any] = []
        self.cgroups = SimpleNamespace(limit_cpu=lambda uid, limits: True)
        self.cpus = SimpleNamespace(reserve=lambda uid, count: [])

    def limits_of(self, pod: Pod, uid: str) -> None:
        resources = pod.spec.containers[0].resources
        self.sizes.append((resources.requests["cpu"], resources.limits["memory"]))

    def make(self, pod: Pod, *rest: Any) -> Any:
        self.limits_of(pod, pod.metadata.uid)
        return SimpleNamespace(network_status="")


def waiting_pod(directory: Path) -> LocalPod:
    pod = plain_pod("compute")
    size = pod.spec.containers[0].resources
    size.requests, size.limits = {"cpu": "1"}, {"memory": "1Gi"}
    local = LocalPods(directory).take_on(pod, new_record(pod))
    size.requests, size.limits = {"cpu": "4"}, {"memory": "4Gi"}
    return local


@pytest.mark.parametrize("step", [LimitCpu(), MakePlace()], ids=["CPU time", "its place"])
def test_a_pod_that_waits_for_more_has_what_was_set_aside_for_it(tmp_path: Path, step: Step) -> None:
    places = Places()
    steps = PodSteps(
        client=cast(Any, None),
        events=cast(Any, None),
        pods=cast(Any, SimpleNamespace(claim=lambda local: "")),
        places=cast(Any, places),
        pulls=cast(Any, SimpleNamespace(image=lambda uid, name: SimpleNamespace(image_id="", tree=""))),
        devices=cast(Any, SimpleNamespace(reserve=lambda uid, wanted: {})),
        starter=cast(Any, None),
        warm=None,
        boot_id="boot",
        host_address="192.0.2.1",
        write_status=lambda local: None,
    )
    local = waiting_pod(tmp_path)
    assert steps.apply(local, step)
    assert places.sizes == [("1", "1Gi")]
    assert local.pod.spec.containers[0].resources.requests["cpu"] == "4"
