"""What a server says to a Pod's new size, and what is made of it."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from kvedge.controller.vmi.resizing.pod_resizer import PodResizer
from kvedge.controller.vmi.resizing.resize_plan import plan_resize, plan_room
from kvedge.controller.vmi.vmi_view import PatchVmi, ResizePod
from kvedge.kube.errors import Invalid
from kvedge.kube.patches import StrategicPatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import CpuTopology, MemoryStatus, PodRoom, VirtualMachineInstance
from kvedge.resources.values.quantities import parse_quantity
from tests.support.builders import CONFIG, NOW
from tests.support.clocks import FakeClock
from tests.unit.controller.vmi.resizing.test_resize_plan import a_guest, its_pod, ordered, reported

LOWER = "memory limits cannot be decreased"


class Server:
    """Kubernetes 1.33: it lowers no memory limit, and changes no Pod's QoS class."""

    def __init__(self, pod: Pod) -> None:
        self.pod, self.asked = pod, 0

    def patch(self, kind: Any, namespace: str, name: str, patch: StrategicPatch, subresource: str) -> Pod:
        assert (kind, subresource) == (Pod, "resize")
        self.asked += 1
        body: Any = patch.body
        wanted: JsonObject = body["spec"]["containers"][0]["resources"]
        present = self.pod.spec.containers[0].resources
        if parse_quantity(wanted["limits"]["memory"]) < parse_quantity(present.limits["memory"]):
            raise Invalid(422, "Invalid", LOWER)
        if (present.limits == present.requests) != (wanted["limits"] == wanted["requests"]):
            raise Invalid(422, "Invalid", "Pod QOS Class may not change as a result of resizing")
        return ordered(self.pod, body)


def a_shrinking_guest(limit: str) -> VirtualMachineInstance:
    """One that has given 2Gi back, and is to have a second CPU."""
    vmi = a_guest(2, "2Gi", limits={"cpu": "200m", "memory": limit}, requests={"cpu": "200m", "memory": "2Gi"})
    vmi.status.pod_room = PodRoom(node="n1", vcpus=1, memory="4Gi")
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current="2Gi", guest_requested="2Gi")
    return vmi


@pytest.mark.parametrize("limit", ["2Gi", "3Gi"], ids=["as requested", "larger"])
def test_where_memory_limits_stay_cpus_come_nevertheless(limit: str) -> None:
    more = {"2Gi": "4Gi", "3Gi": "5Gi"}[limit]
    had = a_guest(1, "4Gi", limits={"cpu": "100m", "memory": more}, requests={"cpu": "100m", "memory": "4Gi"})
    vmi, pod = a_shrinking_guest(limit), its_pod(had)
    del pod.spec.containers[0].resources.requests["ephemeral-storage"]
    server, seconds, events = Server(pod), [0.0], MagicMock()
    resizer = PodResizer(cast(Any, server), MagicMock(), events, lambda: seconds[0])
    before = dict(pod.spec.containers[0].resources.limits)
    written: list[PatchVmi] = []

    def order() -> ResizePod:
        (found,) = plan_resize(vmi, pod, CONFIG, keeps_limits=resizer.keeps_limits())
        return found

    assert resizer.resize(vmi, order(), written.append) is None
    resources = pod.spec.containers[0].resources
    assert resources.requests["cpu"] == resources.limits["cpu"] == "200m"
    assert resources.limits["memory"] == before["memory"]
    assert (server.asked, written, events.record.call_count) == (2, [], 0)
    assert plan_resize(vmi, pod, CONFIG, keeps_limits=resizer.keeps_limits()) == ()
    room = plan_room(vmi, reported(pod), CONFIG, NOW, keeps_limits=resizer.keeps_limits())
    assert room == PodRoom(node="n1", vcpus=2, memory="2Gi")
    # Another one of the same server is not refused first.
    vmi.status.pod_room = PodRoom(node="n1", vcpus=2, memory="4Gi", reason="Resizing")
    vmi.spec.domain = a_shrinking_guest(limit).spec.domain
    assert vmi.spec.domain.cpu is not None
    vmi.spec.domain.cpu.sockets = 3
    vmi.spec.domain.resources.requests["cpu"] = vmi.spec.domain.resources.limits["cpu"] = "300m"
    vmi.status.current_cpu_topology = CpuTopology(sockets=2, cores=1, threads=1)
    assert resizer.resize(vmi, order(), written.append) is None
    assert server.asked == 3
    seconds[0] += 3601
    assert not resizer.keeps_limits(), "somebody may have upgraded it"


def test_what_is_refused_for_another_reason_is_told_and_tried_later() -> None:
    had = a_guest(1, "4Gi", limits={"cpu": "100m", "memory": "5Gi"}, requests={"cpu": "100m", "memory": "4Gi"})
    vmi, pod = a_shrinking_guest("3Gi"), its_pod(had)
    client, events = MagicMock(), MagicMock()
    client.patch.side_effect = Invalid(422, "Invalid", "no")
    resizer = PodResizer(client, MagicMock(), events, FakeClock().monotonic)
    written: list[PatchVmi] = []
    (order,) = plan_resize(vmi, pod, CONFIG)
    wait = resizer.resize(vmi, order, written.append)
    assert wait is not None
    assert wait > 0
    assert client.patch.call_count == 2
    assert not resizer.keeps_limits()
    assert written[0].body["status"]["podRoom"]["reason"] == "ResizeRefused"
    assert resizer.resize(vmi, order, written.append) is not None
    assert client.patch.call_count == 2
