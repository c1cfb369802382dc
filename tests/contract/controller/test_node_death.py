"""A node that dies under Kubernetes' own controllers: taint eviction and Pod garbage collection are real here.

A kube-apiserver and a kube-controller-manager; the kubelet is played, and falls silent. tests/cluster does the same to
machines.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.handler.fencing import fence_service
from kvedge.handler.fencing.fence_service import FenceConfig, FenceService
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch, StrategicPatch
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.names import LAUNCHER_UID, SYSTEM_NAMESPACE
from kvedge.resources.node_loss.fence_terms import SELF_FENCING, FenceTerms
from kvedge.resources.node_loss.node_lease import (
    NODES_NAMESPACE,
    OF_NODE,
    ON_NODE_LOSS,
    RESTART,
    NodeFence,
    lease_name,
    read_fence,
)
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER, NODE_PREFIX, NODES_GROUP
from kvedge.resources.types.core import ConfigMap, Node, Pod
from kvedge.resources.types.kubevirt import DEFAULT_NAME, KubeVirt
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate, VirtualMachineSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.support.builders import CONFIG
from tests.support.cluster.control_plane import ControlPlane, missing_programs
from tests.support.either_server import REAL, EitherServer, install_kinds
from tests.support.kube_apiserver import RealApiServer
from tests.support.played_leases import PlayedWatchdog
from tests.support.role_rights import give_roles_their_rights
from tests.support.tearing_proxy import TearingProxy
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


def uid_of_run(server: EitherServer, namespace: str) -> str:
    """The UID of the VMI that is there; empty while there is none."""
    return next((vmi.metadata.uid for vmi in server.admin.list(VirtualMachineInstance, namespace)), "")


@pytest.fixture
def proxy(server: EitherServer) -> Iterator[TearingProxy]:
    """The way of one node to the API."""
    assert isinstance(server.server, RealApiServer)
    with TearingProxy("127.0.0.1", server.server.port) as proxy:
        yield proxy


def test_a_node_that_fences_itself_ends_its_guest_before_the_next_one_may_start(server, kubelets, proxy, monkeypatch):
    """The handler speaks as its node, as agents do. Its guest is a process that looks like a launcher."""
    watchdogs: list[PlayedWatchdog] = []

    def arm(seconds: int) -> PlayedWatchdog:
        watchdogs.append(PlayedWatchdog(seconds))
        return watchdogs[-1]

    monkeypatch.setattr(fence_service, "arm_device", arm)
    terms = FenceTerms(silence=4, watchdog=2, renew=1, check=1, margin=2)
    wait_until(lambda: server.admin.list(KubeVirt), "the KubeVirt object")
    mark = MergePatch({"metadata": {"annotations": {SELF_FENCING: terms.format()}}})
    server.admin.patch(KubeVirt, SYSTEM_NAMESPACE, DEFAULT_NAME, mark)
    namespace = server.new_namespace()
    node = PlayedNode(server, namespace)
    template = VirtualMachineInstanceTemplate(metadata=ObjectMeta(annotations={ON_NODE_LOSS: RESTART}))
    spec = VirtualMachineSpec(run_strategy="Always", template=template)
    server.admin.create(VirtualMachine(metadata=ObjectMeta(name="web", namespace=namespace), spec=spec))
    pod = node.pod()
    node.starts(pod)
    node.runs()
    uid = node.vmi().metadata.uid
    kubeconfig = Path(server.kubeconfig_of(f"{NODE_PREFIX}{NODE}", NODES_GROUP))
    words = kubeconfig.read_text().replace(f":{server.server.port}", f":{proxy.port}")
    (server.directory / "by-proxy").write_text(words)
    service = FenceService(FenceConfig(server.directory / "by-proxy", NODE, server.directory / "fence.json"))
    guest = subprocess.Popen(["/usr/bin/python3", "-c", "import time; time.sleep(600)", uid], user=LAUNCHER_UID)
    try:
        service.start()

        def lease() -> NodeFence:
            return read_fence(server.admin.get(ConfigMap, NODES_NAMESPACE, lease_name(NODE)))

        wait_until(lambda: server.admin.list(ConfigMap, NODES_NAMESPACE, f"{OF_NODE}=true"), "the node's lease")
        wait_until(lambda: lease().promised == {uid}, "the promise")
        assert lease().terms == terms
        assert service.refuse_start(uid) == ""
        kubelets.fall_silent_on(NODE)
        proxy.freeze()
        wait_until(lambda: lease().gone == {uid}, "the node is fenced", seconds=60, pause=0.05)
        assert guest.poll() == -signal.SIGKILL
        assert service.refuse_start(uid)
        wait_until(lambda: uid_of_run(server, namespace) not in ("", uid), "the next run", seconds=60)
        assert pod.metadata.uid not in [each.metadata.uid for each in node.pods()]
        fed = watchdogs[0].fed
        wait_until(lambda: watchdogs[0].fed > fed, "the machine lives")
        proxy.thaw()
        wait_until(lambda: lease().gone == frozenset(), "the node is back, and has nothing of it", seconds=30)
        assert not watchdogs[0].is_running
    finally:
        proxy.thaw()
        service.stop()
        guest.kill()
        guest.wait()
        server.admin.patch(KubeVirt, SYSTEM_NAMESPACE, DEFAULT_NAME, MergePatch({"metadata": {"annotations": None}}))
