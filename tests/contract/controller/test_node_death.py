"""A node that dies under Kubernetes' own controllers: taint eviction and Pod garbage collection are real here.

A kube-apiserver and a kube-controller-manager; the kubelet is played, and falls silent. tests/cluster does the same to
machines.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch, StrategicPatch
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate, VirtualMachineSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.support.builders import CONFIG
from tests.support.cluster.control_plane import ControlPlane, missing_programs
from tests.support.either_server import REAL, EitherServer, install_kinds
from tests.support.role_rights import give_roles_their_rights
from tests.support.waiting import wait_until

_BEAT_SECONDS = 2.0
# Where no node is ready at all, Kubernetes takes itself for the one that is cut off, and evicts nothing.
_OTHERS = ("node-2", "node-3")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EitherServer]:
    if missing := missing_programs():
        pytest.skip(f"needs {', '.join(missing)}")
    directory = tmp_path_factory.mktemp("node-death") / "control-plane"
    plane = ControlPlane(directory, "127.0.0.1")
    plane.start()
    admin = KubeClient.from_kubeconfig(plane.api.kubeconfig)
    try:
        install_kinds(admin)
        give_roles_their_rights(admin)
        yield EitherServer(REAL, directory, plane.api.kubeconfig, admin, plane.api)
    finally:
        admin.close()
        plane.stop()


@pytest.fixture(autouse=True)
def role(server: EitherServer) -> Iterator[ControllerRole]:
    kubeconfig = server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP)
    role = ControllerRole(kubeconfig, CONFIG, leader_election=False)
    role.start()
    yield role
    assert role.failure() is None
    role.stop()


class PlayedKubelets:
    """Say every two seconds that their nodes are ready, until that of one falls silent."""

    def __init__(self, admin: KubeClient) -> None:
        self._admin = admin
        self._nodes = [NODE, *_OTHERS]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for name in self._nodes:
            admin.create(Node(metadata=ObjectMeta(name=name)))
            self._says_ready(name)
        self._thread.start()

    def fall_silent_on(self, node: str) -> None:
        self._nodes = [name for name in self._nodes if name != node]

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)
        for node in self._admin.list(Node):
            self._admin.delete(Node, "", node.metadata.name)

    def _run(self) -> None:
        while not self._stopping.wait(_BEAT_SECONDS):
            for name in self._nodes:
                self._says_ready(name)

    def _says_ready(self, name: str) -> None:
        now = rfc3339(datetime.now(UTC))
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        self._admin.patch(Node, "", name, StrategicPatch({"status": {"conditions": [ready]}}), "status")


@pytest.fixture
def kubelets(server: EitherServer) -> Iterator[PlayedKubelets]:
    kubelets = PlayedKubelets(server.admin)
    wait_until(lambda: not _taints(server), "the node is fit", seconds=30)
    yield kubelets
    kubelets.stop()


def _taints(server: EitherServer) -> list[str]:
    return [str(taint["key"]) for taint in server.admin.get(Node, "", NODE).spec.taints]


def out_of_service(server: EitherServer) -> None:
    """`kubectl taint nodes node-1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`."""
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    there = server.admin.get(Node, "", NODE).spec.taints
    server.admin.patch(Node, "", NODE, MergePatch({"spec": {"taints": [*there, taint]}}))


def deleted(server: EitherServer) -> None:
    """`kubectl delete node node-1`."""
    server.admin.delete(Node, "", NODE)


@pytest.mark.parametrize("confirm", [out_of_service, deleted], ids=lambda confirm: confirm.__name__)
def test_a_vm_runs_again_only_when_its_dead_node_is_confirmed_dead(server, kubelets, confirm):
    namespace = server.new_namespace()
    node = PlayedNode(server, namespace)
    spec = VirtualMachineSpec(run_strategy="Always", template=VirtualMachineInstanceTemplate())
    server.admin.create(VirtualMachine(metadata=ObjectMeta(name="web", namespace=namespace), spec=spec))
    pod = node.pod()
    node.starts(pod)
    node.runs()
    node.becomes_ready(pod)
    uid = node.vmi().metadata.uid

    def ready() -> Condition:
        return condition(node.vmi().status.conditions, "Ready") or Condition(type="Ready", status="")

    wait_until(lambda: ready().status == "True", "the VM runs")
    kubelets.fall_silent_on(NODE)
    wait_until(lambda: ready().reason == "NodeNotReady", "the VMI is marked", seconds=60)
    wait_until(lambda: ready().reason == "PodTerminating", "Kubernetes evicts its Pod", seconds=60)
    assert "DeletionByTaintManager" in ready().message
    assert "the guest may still run there" in ready().message
    found = server.admin.get(Pod, namespace, pod.metadata.name)
    assert (found.metadata.deletion_timestamp is not None, found.status.phase) == (True, "Running")
    for number in range(10):
        body = MergePatch({"metadata": {"annotations": {"touched": str(number)}}})
        server.admin.patch(VirtualMachine, namespace, "web", body)
        server.admin.patch(VirtualMachineInstance, namespace, "web", body)
        wait_until(lambda: [vmi.metadata.uid for vmi in server.admin.list(VirtualMachineInstance, namespace)], "a VMI")
        assert [item.metadata.uid for item in node.pods()] == [pod.metadata.uid]
        assert node.vmi().metadata.uid == uid
    assert node.vmi().status.phase == "Running"
    confirm(server)

    def runs_anew() -> bool:
        pods = node.pods()
        there = [vmi.metadata.uid for vmi in server.admin.list(VirtualMachineInstance, namespace)]
        # Whatever is seen on the way, the Pod of another run is never beside that of the first.
        assert len(pods) <= 1
        return there not in ([], [uid]) and bool(pods)

    wait_until(runs_anew, "another run", seconds=180, pause=0.1)
