"""Hotplugged volumes with the controller against both servers, and a node that is played."""

from __future__ import annotations

from typing import Any

from kvedge.kube.patches import MergePatch
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance, VolumeStatus
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data", "hotpluggable": True}}
LOST = {"name": "lost", "persistentVolumeClaim": {"claimName": "lost", "hotpluggable": True}}
ATTACHMENTS = "kubevirt.io=hotplug-disk"


class Guest:
    """A VMI whose guest runs, with a claim that is bound."""

    def __init__(self, server: EitherServer, node: PlayedNode) -> None:
        self.client, self.node, self.namespace = server.admin, node, node.namespace
        body: dict[str, Any] = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": "web"},
            "spec": {"domain": {"devices": {}}},
        }
        self.client.request("POST", VirtualMachineInstance.KIND.path(self.namespace), body)
        pod = node.pod()
        node.starts(pod)
        node.runs()

    def has_a_bound_claim(self, name: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        size = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": ""}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        self.client.request("POST", path, body)
        status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
        media_type = "application/merge-patch+json"
        self.client.request("PATCH", f"{path}/{name}/status", status, media_type=media_type)

    def wants(self, *volumes: dict[str, Any]) -> None:
        disks = [{"name": volume["name"], "disk": {"bus": "scsi"}} for volume in volumes]
        spec = {"volumes": list(volumes), "domain": {"devices": {"disks": disks}}}
        self.client.patch(VirtualMachineInstance, self.namespace, "web", MergePatch({"spec": spec}))

    def entry(self, name: str) -> VolumeStatus | None:
        return next((entry for entry in self.node.vmi().status.volume_status if entry.name == name), None)

    def is_in(self, name: str, phase: str, reason: str) -> bool:
        entry = self.entry(name)
        return entry is not None and (entry.phase, entry.reason) == (phase, reason)

    def pods(self) -> list[Pod]:
        return self.client.list(Pod, self.namespace, ATTACHMENTS)

    def handler_says(self, name: str, phase: str) -> None:
        document = self.client.request("GET", VirtualMachineInstance.KIND.path(self.namespace, "web"))
        entries = document["status"]["volumeStatus"]
        for entry in entries:
            if entry["name"] == name:
                entry["phase"] = phase
        patch = MergePatch({"status": {"volumeStatus": entries}})
        self.client.patch(VirtualMachineInstance, self.namespace, "web", patch)


def test_a_volume_comes_by_a_pod_of_its_own_and_goes_when_the_handler_has_let_go(
    either_server: EitherServer, node: PlayedNode
) -> None:
    guest = Guest(either_server, node)
    guest.has_a_bound_claim("data")
    guest.wants(LOST, DATA)
    wait_until(lambda: guest.is_in("data", "AttachedToNode", "SuccessfulCreate"), "the Pod holds the claim")
    wait_until(lambda: guest.is_in("lost", "Pending", "FailedPvcNotFound"), "the missing claim is told")
    (pod,) = guest.pods()
    either_server.bind(pod, NODE)
    running = {"running": {"startedAt": "2026-01-02T03:00:00Z"}}
    node.reports(pod, "Running", {"hotplug-disk": running})

    def has_uid() -> bool:
        entry = guest.entry("data")
        return entry is not None and entry.hotplug_volume is not None and bool(entry.hotplug_volume.attach_pod_uid)

    wait_until(has_uid, "the Pod's UID is told once it is ready")
    guest.handler_says("data", "Ready")
    guest.wants()
    wait_until(lambda: guest.entry("lost") is None, "what never came is forgotten")
    assert guest.is_in("data", "Ready", "SuccessfulCreate")
    assert len(guest.pods()) == 1
    guest.handler_says("data", "UnMountedFromPod")
    wait_until(lambda: guest.is_in("data", "Detaching", "SuccessfulDelete") or not guest.pods(), "the Pod is let go")
    for left in guest.pods():
        node.is_forgotten(left)
    wait_until(lambda: guest.entry("data") is None, "the entry goes with the Pod")
