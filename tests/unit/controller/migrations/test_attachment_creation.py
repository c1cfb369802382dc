"""The loop of migrations makes attachment Pods on the target's node, and hands over once they are ready."""

from __future__ import annotations

from kvedge.kube.errors import Forbidden
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP
from kvedge.resources.names import APP
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MIGRATION_JOB_UID, VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import HotplugVolumeStatus, VirtualMachineInstance, VolumeStatus
from tests.support.builders import a_claim, a_pod, a_vmi
from tests.unit.controller.migrations.small_server import SmallServer
from tests.unit.controller.migrations.test_migration_loop import add_guest
from tests.unit.controller.vmi.hotplug.hotplug_world import a_volume, running_container

MOVE = "move-web"


def a_server_whose_target_runs() -> SmallServer:
    """A guest with one hotplugged volume, and the Pod that it is to come to."""
    server = SmallServer()
    vmi = add_guest(server)
    vmi.spec.volumes = [a_volume("data")]
    at = HotplugVolumeStatus(attach_pod_name="hp-volume-old", attach_pod_uid="old")
    vmi.status.volume_status = [VolumeStatus(name="data", target="sda", phase="Ready", hotplug_volume=at)]
    server.put(vmi)
    server.put(a_claim("data", access_modes=["ReadWriteMany"]))
    server.tell()
    server.turn(MOVE)
    (pod,) = (pod for pod in server.pods() if MIGRATION_JOB_UID in pod.metadata.labels)
    pod.spec.node_name, pod.status = "node-2", a_pod(a_vmi("Running"), "Running", "node-2").status
    server.put(pod)
    server.tell()
    return server


def attachments(server: SmallServer) -> list[Pod]:
    return [pod for pod in server.pods() if pod.metadata.labels.get(APP) == ATTACHMENT_APP]


def phase(server: SmallServer) -> str:
    found: VirtualMachineInstanceMigration = server.find(VirtualMachineInstanceMigration, MOVE)
    return found.status.phase


def test_the_pod_is_made_once_and_handed_over_with_its_uid_when_it_is_ready():
    server = a_server_whose_target_runs()
    server.turn(MOVE)
    server.turn(MOVE)
    (pod,) = attachments(server)
    assert ("Normal", "SuccessfulCreate", f"Created attachment pod {pod.metadata.name}") in server.told()
    server.tell()
    assert phase(server) == "Scheduling"
    server.waiting()
    pod.spec.node_name, pod.status.phase = "node-2", "Running"
    pod.status.container_statuses = [running_container("hotplug-disk")]
    server.put(pod)
    server.tell()
    assert MOVE in {key.name for key in server.waiting()}
    server.turn(MOVE)
    state = server.find(VirtualMachineInstance, "web").status.migration_state
    assert state.target_attachment_pods == {"data": pod.metadata.uid}
    assert phase(server) == "PreparingTarget"


def test_a_pod_that_the_server_refuses_is_tried_again_with_back_off():
    server = a_server_whose_target_runs()
    server.refuses = Forbidden(403, "Forbidden", "exceeded quota: pods")
    first = server.turn(MOVE)
    assert first is not None
    assert first.after >= 1
    refused = [told for told in server.told() if told[1] == "FailedCreate"]
    assert len(refused) == 1
    assert "exceeded quota: pods" in refused[0][2]
    server.refuses = None
    server.clock.seconds += 100
    server.turn(MOVE)
    assert len(attachments(server)) == 1


def test_a_pod_of_somebody_else_by_that_name_is_not_taken_for_ours():
    server = a_server_whose_target_runs()
    server.turn(MOVE)
    (pod,) = attachments(server)
    server.remove(pod)
    server.tell()
    pod.metadata.owner_references, pod.metadata.labels = [], {}
    server.put(pod)
    again = server.turn(MOVE)
    assert again is not None
    assert ("Warning", "FailedCreate") in {told[:2] for told in server.told()}
    assert phase(server) == "Scheduling"
