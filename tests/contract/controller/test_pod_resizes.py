"""The launcher's Pod follows its guest's CPUs and memory, against both servers; kubelet and handler are played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.patches import MergePatch, StrategicPatch
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Event, Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import PodRoom, VirtualMachineInstance
from kvedge.resources.values.quantities import parse_bytes
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.support.builders import CONFIG
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

_MIB = 1 << 20


class Scene:
    """A VM whose guest of one CPU and 1Gi runs, and who plays the rest."""

    def __init__(self, server: EitherServer, namespace: str) -> None:
        self.server, self.client, self.namespace = server, server.admin, namespace
        self.node = PlayedNode(server, namespace)
        self.size: JsonObject = {}
        self.role = self._lead()

    def _lead(self) -> ControllerRole:
        kubeconfig = self.server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP)
        role = ControllerRole(kubeconfig, CONFIG, leader_election=False)
        role.start()
        return role

    def begin_anew(self) -> None:
        """The controller ends, and another one leads."""
        self.role.stop()
        self.role = self._lead()

    def start(self) -> Pod:
        domain = {
            "cpu": {"sockets": 1, "cores": 1, "threads": 1, "maxSockets": 4},
            "memory": {"guest": "1Gi", "maxGuest": "4Gi"},
            "devices": {},
        }
        template = {"spec": {"architecture": "amd64", "domain": domain}}
        body = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": "web"},
            "spec": {"runStrategy": "Always", "template": template},
        }
        self.client.request("POST", VirtualMachine.KIND.path(self.namespace), body)
        self.node.starts(self.node.pod())
        self.kubelet_gives()
        self.node.runs()
        self.handler_says(1, "1Gi")
        return self.node.pod()

    def edit(self, sockets: int, memory: str) -> None:
        domain = {"cpu": {"sockets": sockets}, "memory": {"guest": memory}}
        change = {"spec": {"template": {"spec": {"domain": domain}}}}
        self.client.patch(VirtualMachine, self.namespace, "web", MergePatch(change))

    def handler_says(self, sockets: int, memory: str) -> None:
        told = {"guestAtBoot": "1Gi", "guestCurrent": memory, "guestRequested": memory}
        topology = {"sockets": sockets, "cores": 1, "threads": 1}
        self._patch_vmi({"status": {"currentCPUTopology": topology, "memory": told}})

    def _patch_vmi(self, body: JsonObject) -> None:
        self.client.patch(VirtualMachineInstance, self.namespace, "web", MergePatch(body))

    def kubelet_gives(self) -> None:
        """It has set aside what the spec says, and has nothing against it."""
        size = encode(self.node.pod().spec.containers[0].resources)
        resources = {kind: size.get(kind, {}) for kind in ("requests", "limits")}
        self._status({"allocatedResources": resources["requests"], "resources": resources}, "False", "", "")

    def kubelet_waits(self, reason: str, message: str) -> None:
        self._status({}, "True", reason, message)

    def _status(self, container: JsonObject, status: str, reason: str, message: str) -> None:
        # Container statuses are replaced as a whole.
        self.size = container or self.size
        container = {"name": "compute", "ready": True, "restartCount": 0, "image": "i", "imageID": "", **self.size}
        pending = {"type": "PodResizePending", "status": status, "reason": reason, "message": message}
        body: Any = {"status": {"conditions": [pending], "containerStatuses": [container]}}
        pod = self.node.pod()
        self.client.patch(Pod, self.namespace, pod.metadata.name, StrategicPatch(body), "status")

    def asked(self) -> tuple[str, int]:
        """CPU and MiB of memory that the launcher's container asks for."""
        requests = self.node.pod().spec.containers[0].resources.requests
        return str(requests["cpu"]), parse_bytes(requests["memory"]) // _MIB

    def events(self) -> set[str]:
        """The reasons of all events, which are sent by a thread of their own."""
        return {event.reason for event in self.client.list(Event, self.namespace)}

    def room(self) -> PodRoom:
        return self.node.vmi().status.pod_room or PodRoom()


@pytest.fixture
def scene(either_server: EitherServer, namespace: str) -> Iterator[Scene]:
    # A kube-apiserver resizes no Pod of a node that it does not know, or that is too small for it.
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    either_server.admin.request("POST", "/api/v1/nodes", node)
    size = {"status": {name: {"cpu": "8", "memory": "16Gi", "pods": "9"} for name in ("capacity", "allocatable")}}
    merge = "application/merge-patch+json"
    either_server.admin.request("PATCH", f"/api/v1/nodes/{NODE}/status", size, None, merge)
    made = Scene(either_server, namespace)
    try:
        yield made
        assert made.role.failure() is None
    finally:
        made.role.stop()
        either_server.admin.request("DELETE", f"/api/v1/nodes/{NODE}")


def test_a_pod_grows_before_its_guest_and_shrinks_after_it_whoever_leads(scene: Scene) -> None:
    pod = scene.start()
    cpu, memory = scene.asked()
    assert (cpu, scene.node.vmi().status.pod_room) == ("100m", None)
    scene.edit(3, "2Gi")
    grown = ("300m", memory + 1024 + 2 * 4 + 2)
    wait_until(lambda: scene.asked() == grown, "the Pod is to be larger")
    wait_until(lambda: scene.room().node == NODE, "the guest is told to wait")
    assert (scene.room().vcpus, scene.room().memory) == (1, "1Gi")
    scene.kubelet_waits("Deferred", "OutOfmemory")
    wait_until(lambda: scene.room().reason == "Deferred", "why is told")
    assert "has no room for a larger Pod now" in scene.room().message
    scene.begin_anew()
    scene.kubelet_gives()
    wait_until(lambda: scene.room() == PodRoom(node=NODE, vcpus=3, memory="2Gi"), "the guest may grow")
    scene.handler_says(3, "2Gi")
    scene.edit(3, "1Gi")
    wait_until(lambda: scene.node.vmi().spec.domain.memory.guest == "1Gi", "the guest is to give memory back")  # type: ignore[union-attr]
    assert scene.asked() == grown
    scene.handler_says(3, "1Gi")
    wait_until(lambda: scene.asked() == ("300m", memory + 2 * 4), "the Pod gives it back")
    assert scene.node.pod().metadata.uid == pod.metadata.uid


def test_a_quota_without_room_is_told_and_asked_again(scene: Scene) -> None:
    scene.start()
    hard = {"requests.memory": "2Gi"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": hard}}
    path = f"/api/v1/namespaces/{scene.namespace}/resourcequotas"
    scene.client.request("POST", path, quota)
    used = {"status": {"hard": hard, "used": {"requests.memory": f"{scene.asked()[1]}Mi"}}}
    merge = "application/merge-patch+json"
    scene.client.request("PATCH", f"{path}/small/status", used, None, merge)
    before = scene.asked()
    scene.edit(1, "3Gi")
    wait_until(lambda: scene.room().reason == "QuotaExceeded", "the refusal is told")
    assert "exceeded quota: small" in scene.room().message
    wait_until(lambda: "FailedResize" in scene.events(), "the event is there")
    assert (scene.asked(), scene.room().memory) == (before, "1Gi")
    scene.client.request("DELETE", f"{path}/small")
    wait_until(lambda: scene.asked()[1] > 3072, "it is asked again", 90)
