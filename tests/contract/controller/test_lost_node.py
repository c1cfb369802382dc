"""Nodes that are drained, silent or lost, on both servers: what their VMs show, and that none is ever started twice.

The parts that a cluster's kube-controller-manager plays (taint eviction, Pod garbage collection) are played here with
the same writes; tests/cluster has the real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.controller.node.node_plan import UNRESPONSIVE_SECONDS
from kvedge.kube.patches import MergePatch, StrategicPatch
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.names import HEARTBEAT, SCHEDULABLE
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Event, Node, Pod
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate, VirtualMachineSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.support.builders import CONFIG
from tests.support.clocks import TurnedClock
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until


class Cluster:
    """One node, and what happens to it."""

    def __init__(self, server: EitherServer, clock: TurnedClock) -> None:
        self.server, self.clock, self.admin = server, clock, server.admin
        self._touched = 0

    def beats(self, moment: datetime) -> None:
        """The handler writes its heartbeat, by its own clock."""
        body = {"metadata": {"labels": {SCHEDULABLE: "true"}, "annotations": {HEARTBEAT: rfc3339(moment)}}}
        self.admin.patch(Node, "", NODE, MergePatch(body))

    def is_touched(self) -> None:
        """Somebody else writes the Node: the kubelet, which lives on when the handler does not."""
        self._touched += 1
        self.admin.patch(Node, "", NODE, MergePatch({"metadata": {"labels": {"touched": str(self._touched)}}}))

    def is_given_up(self) -> bool:
        """Five more minutes pass in which only the kubelet says something: whether the node takes no more VMs."""
        self.clock.turn(timedelta(seconds=UNRESPONSIVE_SECONDS))
        self.is_touched()
        return self.is_schedulable() == "false"

    def turns(self, ready: str) -> None:
        """The node lifecycle controller, or the kubelet, says whether the node is ready."""
        said = {"status": ready, "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
        if ready == "True":
            said = {"status": ready, "reason": "KubeletReady", "message": "kubelet is posting ready status"}
        patch = StrategicPatch({"status": {"conditions": [{"type": "Ready", **said}]}})
        self.admin.patch(Node, "", NODE, patch, "status")

    def is_schedulable(self) -> str:
        return self.admin.get(Node, "", NODE).metadata.labels.get(SCHEDULABLE, "")

    def events(self, kind: str, name: str, reason: str) -> list[str]:
        found = self.admin.list(Event, field_selector=f"reason={reason}")
        there = [event for event in found if event.involved_object.kind == kind and event.involved_object.name == name]
        return [event.message for event in there]


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def cluster(either_server: EitherServer, clock: TurnedClock) -> Iterator[Cluster]:
    either_server.admin.create(Node(metadata=ObjectMeta(name=NODE)))
    cluster = Cluster(either_server, clock)
    cluster.beats(datetime.now(UTC))
    cluster.turns("True")
    kubeconfig = either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP)
    role = ControllerRole(kubeconfig, CONFIG, leader_election=False, clock=clock)
    role.start()
    yield cluster
    assert role.failure() is None
    role.stop()
    either_server.admin.delete(Node, "", NODE)


@pytest.fixture
def node(either_server: EitherServer, namespace: str) -> PlayedNode:
    return PlayedNode(either_server, namespace)


class Vm:
    """The VM `web` of one namespace, on the played node."""

    def __init__(self, node: PlayedNode, cluster: Cluster) -> None:
        self.node, self.admin, self.cluster = node, cluster.admin, cluster

    def runs(self, strategy: str = "Always") -> Pod:
        spec = VirtualMachineSpec(run_strategy=strategy, template=VirtualMachineInstanceTemplate())
        self.admin.create(VirtualMachine(metadata=ObjectMeta(name="web", namespace=self.node.namespace), spec=spec))
        if strategy == "Manual":
            body = MergePatch({"status": {"stateChangeRequests": [{"action": "Start"}]}})
            self.admin.patch(VirtualMachine, self.node.namespace, "web", body, "status")
        pod = self.node.pod()
        self.node.starts(pod)
        self.node.runs()
        self.node.becomes_ready(pod)
        wait_until(lambda: self.ready().status == "True", "the VMI is ready")
        return pod

    def ready(self) -> Condition:
        return condition(self.node.vmi().status.conditions, "Ready") or Condition(type="Ready", status="")

    def runs_of(self) -> list[VirtualMachineInstance]:
        return self.admin.list(VirtualMachineInstance, self.node.namespace)

    def uid(self) -> str:
        return self.node.vmi().metadata.uid

    def runs_anew(self, earlier: str) -> bool:
        return any(vmi.metadata.uid != earlier for vmi in self.runs_of())

    def is_left_alone(self, uid: str, pod: Pod) -> None:
        """Whatever the controllers are told of this VM, they start nothing as long as the Pod is there."""
        for number in range(5):
            # Each of these is a reason to look at the VM again; the answer to the next shows that they have looked.
            body = MergePatch({"metadata": {"annotations": {"touched": str(number)}}})
            self.admin.patch(VirtualMachine, self.node.namespace, "web", body)
            self.admin.patch(VirtualMachineInstance, self.node.namespace, "web", body)
            self.cluster.clock.turn(timedelta(seconds=100))
            self.cluster.is_touched()
            wait_until(lambda: [vmi.metadata.uid for vmi in self.runs_of()] == [uid], "one run", pause=0.2)
            assert [item.metadata.uid for item in self.node.pods()] == [pod.metadata.uid]


@pytest.fixture
def vm(node: PlayedNode, cluster: Cluster) -> Vm:
    return Vm(node, cluster)


def evict(cluster: Cluster, pod: Pod) -> None:
    """As `kubectl drain` does; the embedded API does not say in the Pod who it was, a kube-apiserver does."""
    meta = pod.metadata
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta.name, "namespace": meta.namespace}}
    cluster.admin.request("POST", f"{Pod.KIND.path(meta.namespace, meta.name)}/eviction", body)
    mark(cluster, pod, "EvictionByEvictionAPI", "Eviction API: evicting")


def mark(cluster: Cluster, pod: Pod, reason: str, message: str) -> None:
    entry = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    patch = StrategicPatch({"status": {"conditions": [entry]}})
    cluster.admin.patch(Pod, pod.metadata.namespace, pod.metadata.name, patch, "status")


def is_buried(cluster: Cluster, node: PlayedNode, pod: Pod) -> None:
    """What Kubernetes' Pod garbage collector does for a node that is gone or out of service."""
    mark(cluster, pod, "DeletionByPodGC", "PodGC: node no longer exists")
    patch = StrategicPatch({"status": {"phase": "Failed"}})
    cluster.admin.patch(Pod, pod.metadata.namespace, pod.metadata.name, patch, "status")
    node.removes(pod)


def test_a_node_that_is_silent_for_five_minutes_takes_no_vms_until_it_speaks(cluster):
    wait_until(cluster.is_given_up, "the node is marked")
    told = wait_until(lambda: cluster.events("Node", NODE, "NodeUnresponsive"), "an event tells")
    assert set(told) == {"virt-handler is not responsive, marking node as unresponsive"}
    cluster.beats(datetime.now(UTC) + timedelta(seconds=5))
    cluster.is_touched()
    assert cluster.is_schedulable() == "true"


@pytest.mark.parametrize("hours", [-1, 1], ids=["behind", "ahead"])
def test_a_node_whose_clock_is_an_hour_off_is_not_taken_for_dead(cluster, hours):
    wrong = datetime.now(UTC) + timedelta(hours=hours)
    for minutes in range(0, 10, 2):
        cluster.beats(wrong + timedelta(minutes=minutes))
        cluster.clock.turn(timedelta(minutes=2))
        cluster.is_touched()
        assert cluster.is_schedulable() == "true"
    wait_until(cluster.is_given_up, "but it is when it falls silent")


def test_a_lost_node_keeps_its_vm_until_it_is_declared_dead(cluster, node, vm):
    pod = vm.runs()
    uid = vm.uid()
    cluster.turns("Unknown")
    wait_until(lambda: vm.ready().reason == "NodeNotReady", "the VMI is marked")
    assert "Kubelet stopped posting node status." in vm.ready().message
    wait_until(lambda: cluster.events("VirtualMachineInstance", "web", "NodeNotReady"), "an event tells")
    vm.is_left_alone(uid, pod)
    # After five minutes Kubernetes asks the Pod to end; nobody is there to do so.
    mark(cluster, pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
    cluster.admin.delete(Pod, node.namespace, pod.metadata.name)
    wait_until(lambda: vm.ready().reason == "PodTerminating", "the VMI says so")
    assert "the guest may still run there" in vm.ready().message
    vm.is_left_alone(uid, pod)
    assert node.vmi().status.phase == "Running"
    is_buried(cluster, node, pod)
    wait_until(lambda: vm.runs_anew(uid), "another run", seconds=40)
    message = f"virt-handler on node {NODE} is not responsive, marking VMI as failed"
    wait_until(lambda: message in cluster.events("VirtualMachineInstance", "web", "NodeUnresponsive"), "an event tells")


@pytest.mark.parametrize("phase", ["Running", "Unknown", "Pending"])
def test_a_vm_that_its_user_wants_gone_or_restarted_waits_for_its_pod_on_a_lost_node(cluster, node, vm, phase):
    pod = vm.runs()
    uid = vm.uid()
    cluster.turns("Unknown")
    node.reports(pod, phase, {})
    cluster.admin.delete(VirtualMachineInstance, node.namespace, "web")
    wait_until(lambda: node.pods()[0].metadata.deletion_timestamp, "the Pod is asked to end")
    vm.is_left_alone(uid, pod)
    is_buried(cluster, node, pod)
    wait_until(lambda: vm.runs_anew(uid), "another run", seconds=40)


def test_a_failed_run_on_a_lost_node_is_not_followed_by_another_while_its_pod_is_there(cluster, node, vm):
    pod = vm.runs()
    uid = vm.uid()
    # The handler's last word before the node went: the launcher did not answer.
    node.enters("Failed")
    cluster.turns("Unknown")
    wait_until(lambda: node.vmi().metadata.deletion_timestamp, "the VM ends the run")
    vm.is_left_alone(uid, pod)
    node.removes(pod)
    wait_until(lambda: vm.runs_anew(uid), "another run")


def test_a_guest_whose_pod_was_deleted_by_force_is_waited_for_until_its_handler_tells_its_end(cluster, node, vm):
    pod = vm.runs()
    uid = vm.uid()
    node.is_forgotten(pod)
    wait_until(lambda: vm.ready().reason == "PodGone", "the VMI says what it waits for", seconds=30)
    assert f"virt-handler on node {NODE} is waited for" in vm.ready().message
    wait_until(lambda: cluster.events("VirtualMachineInstance", "web", "PodGone"), "the event is there")
    # A user who wants it gone does not get another beside it either.
    cluster.admin.delete(VirtualMachineInstance, node.namespace, "web")
    for number in range(5):
        body = MergePatch({"metadata": {"annotations": {"touched": str(number)}}})
        cluster.admin.patch(VirtualMachine, node.namespace, "web", body)
        cluster.clock.turn(timedelta(seconds=20))
        cluster.is_touched()
        wait_until(lambda: [vmi.metadata.uid for vmi in vm.runs_of()] == [uid], "one run", pause=0.2)
        assert node.pods() == []
    node.enters("Succeeded")
    wait_until(lambda: vm.runs_anew(uid), "another run")


def test_a_pod_that_is_deleted_by_force_does_not_declare_its_lost_node_dead(cluster, node, vm):
    pod = vm.runs()
    uid = vm.uid()
    cluster.turns("Unknown")
    wait_until(lambda: vm.ready().reason == "NodeNotReady", "the VMI is marked")
    node.is_forgotten(pod)
    wait_until(lambda: "virt-launcher pod is gone" in vm.ready().message, "the VMI says so", seconds=30)
    assert "node.kubernetes.io/out-of-service" in vm.ready().message
    assert (node.vmi().status.phase, vm.uid()) == ("Running", uid)
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    cluster.admin.patch(Node, "", NODE, MergePatch({"spec": {"taints": [taint]}}))
    wait_until(lambda: vm.runs_anew(uid), "another run", seconds=40)


def test_a_node_that_comes_back_finds_its_vm_as_it_was(cluster, node, vm):
    pod = vm.runs()
    cluster.turns("Unknown")
    wait_until(lambda: vm.ready().reason == "NodeNotReady", "the VMI is marked")
    cluster.turns("True")
    wait_until(lambda: vm.ready().status == "True", "the mark goes")
    assert [item.metadata.uid for item in node.pods()] == [pod.metadata.uid]


@pytest.mark.parametrize(
    ("strategy", "ended", "goes_on"),
    [
        ("Always", "Succeeded", True),
        ("Always", "Failed", True),
        ("RerunOnFailure", "Succeeded", False),
        ("RerunOnFailure", "Failed", True),
        ("Manual", "Succeeded", False),
        ("Manual", "Failed", False),
        ("Once", "Succeeded", False),
        ("Once", "Failed", False),
    ],
)
def test_a_drain_ends_the_guest_and_the_run_strategy_says_what_follows(cluster, node, vm, strategy, ended, goes_on):
    pod = vm.runs(strategy)
    uid = vm.uid()
    evict(cluster, pod)
    wait_until(lambda: "EvictionByEvictionAPI" in vm.ready().message, "the VMI says who ends it")
    assert vm.ready().reason == "PodTerminating"
    wait_until(lambda: cluster.events("VirtualMachineInstance", "web", "EvictionByEvictionAPI"), "an event tells")
    # The launcher gets SIGTERM, the guest ends, the handler says how.
    node.enters(ended)
    node.removes(pod)
    if goes_on:
        wait_until(lambda: vm.runs_anew(uid), "another run")
        return
    if strategy == "RerunOnFailure":
        wait_until(lambda: not vm.runs_of(), "the run is gone")
    body = MergePatch({"metadata": {"annotations": {"touched": "1"}}})
    cluster.admin.patch(VirtualMachine, node.namespace, "web", body)
    shown = lambda: cluster.admin.get(VirtualMachine, node.namespace, "web").status.printable_status  # noqa: E731
    wait_until(lambda: shown() == "Stopped", "the VM is stopped")
    assert not vm.runs_anew(uid)
