"""A ReplicaSet from its creation to its end, with the controller against both servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.phases import Phase
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Event, Pod
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.builders import CONFIG, replica_set_of, small_vmi
from tests.support.edits import edit
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    """Under its own name, with its own rights."""
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield role
    role.stop()


class Replicas:
    """One set of the test's namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.path = VirtualMachineInstanceReplicaSet.KIND.path(namespace)

    def create(self, replicas: int | None = 2, **spec: Any) -> None:
        document = replica_set_of(small_vmi(), replicas, **spec)
        document["metadata"]["namespace"] = self.namespace
        self.client.request("POST", self.path, document)

    def get(self) -> VirtualMachineInstanceReplicaSet:
        return self.client.get(VirtualMachineInstanceReplicaSet, self.namespace, "web")

    def change(self, **spec: Any) -> None:
        self.client.patch(VirtualMachineInstanceReplicaSet, self.namespace, "web", MergePatch({"spec": spec}))

    def delete(self, policy: str) -> None:
        self.client.delete(VirtualMachineInstanceReplicaSet, self.namespace, "web", propagation=policy)

    def vmis(self) -> list[VirtualMachineInstance]:
        """Those that nobody has deleted: nothing takes finalizers away here that a handler would."""
        listed = self.client.list(VirtualMachineInstance, self.namespace)
        return [vmi for vmi in listed if vmi.metadata.deletion_timestamp is None]

    def names(self) -> set[str]:
        return {vmi.metadata.name for vmi in self.vmis()}

    def has(self, number: int) -> Callable[[], bool]:
        return lambda: len(self.vmis()) == number and self.get().status.replicas == number

    def told(self) -> set[tuple[str, str]]:
        events = self.client.list(Event, self.namespace)
        return {(item.reason, item.message) for item in events if item.involved_object.name == "web"}


@pytest.fixture
def node(either_server: EitherServer, namespace: str) -> PlayedNode:
    return PlayedNode(either_server, namespace)


@pytest.fixture
def replicas(role: ControllerRole, either_server: EitherServer, namespace: str) -> Replicas:
    return Replicas(either_server.admin, namespace)


def test_a_set_has_as_many_vmis_as_it_says_in_both_directions(replicas: Replicas) -> None:
    replicas.create(2)
    wait_until(replicas.has(2), "two VMIs")
    (owner,) = {vmi.metadata.owner_references[0].name for vmi in replicas.vmis()}
    assert owner == "web"
    assert all(vmi.metadata.labels["app"] == "web" for vmi in replicas.vmis())
    assert all(name.startswith("web") and len(name) == 8 for name in replicas.names())
    replicas.change(replicas=4)
    wait_until(replicas.has(4), "four VMIs")
    replicas.change(replicas=0)
    wait_until(replicas.has(0), "none")
    wait_until(lambda: {"SuccessfulCreate", "SuccessfulDelete"} <= {reason for reason, _ in replicas.told()}, "events")


def test_a_set_is_scaled_by_its_subresource(replicas: Replicas) -> None:
    replicas.create(None)
    wait_until(replicas.has(1), "the one VMI that is the default")
    path = f"{replicas.path}/web/scale"
    scale = replicas.client.request("GET", path)
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 1})
    assert scale["status"] == {"replicas": 1, "selector": "app=web"}
    edit(replicas.client, path, lambda scale: scale["spec"].update(replicas=3))
    wait_until(replicas.has(3), "three VMIs")
    merge = "application/merge-patch+json"
    replicas.client.request("PATCH", path, {"spec": {"replicas": 2}}, media_type=merge)
    wait_until(replicas.has(2), "two VMIs")
    assert replicas.client.request("GET", path)["status"]["replicas"] == 2


def runs(node: PlayedNode, name: str) -> Pod:
    """The guest of a VMI runs; its Pod, which is not ready."""

    def pods() -> list[Pod]:
        return [pod for pod in node.pods() if pod.metadata.owner_references[0].name == name]

    (pod,) = wait_until(pods, "the launcher Pod")
    node.starts(pod)
    node.runs(name)
    return pod


def test_ready_vmis_are_counted_and_the_least_ready_one_goes_first(replicas: Replicas, node: PlayedNode) -> None:
    replicas.create(3)
    wait_until(replicas.has(3), "three VMIs")
    stays, *others = sorted(replicas.names())
    pod = runs(node, stays)
    runs(node, others[0])
    node.becomes_ready(pod)
    wait_until(lambda: replicas.get().status.ready_replicas == 1, "one is ready")
    replicas.change(replicas=1)
    wait_until(replicas.has(1), "one VMI")
    assert replicas.names() == {stays}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_vmi_that_has_ended_is_replaced_and_deleted(replicas: Replicas, phase: Phase, node: PlayedNode) -> None:
    replicas.create(2)
    wait_until(replicas.has(2), "two VMIs")
    over = min(replicas.names())
    runs(node, over)
    node.enters(phase, over)
    wait_until(lambda: over not in replicas.names() and len(replicas.names()) == 2, "another one in its place")
    uid = replicas.client.get(VirtualMachineInstance, replicas.namespace, over).metadata.uid
    wait_until(lambda: ("SuccessfulDelete", f"Deleted finished virtual machine: {uid}") in replicas.told(), "the event")


def test_a_vmi_whose_pod_is_being_deleted_is_replaced_at_once(replicas: Replicas, node: PlayedNode) -> None:
    replicas.create(2)
    wait_until(replicas.has(2), "two VMIs")
    over = min(replicas.names())
    pod = runs(node, over)
    replicas.client.delete(Pod, replicas.namespace, pod.metadata.name)
    wait_until(lambda: over not in replicas.names() and len(replicas.names()) == 2, "another one in its place")
    left = replicas.client.get(VirtualMachineInstance, replicas.namespace, over)
    ready = condition(left.status.conditions, "Ready")
    assert ready is not None
    assert (left.status.phase, ready.status, ready.reason) == ("Running", "False", "PodTerminating")


def test_a_vmi_whose_labels_are_changed_is_released_and_replaced_and_comes_back(replicas: Replicas) -> None:
    replicas.create(2)
    wait_until(replicas.has(2), "two VMIs")
    taken = min(replicas.names())
    change = MergePatch({"metadata": {"labels": {"app": "other"}}})
    replicas.client.patch(VirtualMachineInstance, replicas.namespace, taken, change)
    wait_until(lambda: len(replicas.vmis()) == 3, "another one in its place")
    released = replicas.client.get(VirtualMachineInstance, replicas.namespace, taken)
    assert (released.metadata.owner_references, released.metadata.deletion_timestamp) == ([], None)
    change = MergePatch({"metadata": {"labels": {"app": "web"}}})
    replicas.client.patch(VirtualMachineInstance, replicas.namespace, taken, change)
    wait_until(replicas.has(2), "one goes, as there are three")


def test_a_vmi_with_the_labels_is_adopted(replicas: Replicas) -> None:
    meta = ObjectMeta(name="earlier", namespace=replicas.namespace, labels={"app": "web"})
    replicas.client.create(VirtualMachineInstance(metadata=meta))
    # A set that is seen first makes both, adopts a third, and deletes any of them.
    wait_until(lambda: replicas.vmis()[0].status.phase != "", "the controller has seen the VMI")
    replicas.create(2)
    wait_until(replicas.has(2), "two VMIs")
    adopted = replicas.client.get(VirtualMachineInstance, replicas.namespace, "earlier")
    owner = adopted.metadata.controller_reference()
    assert owner is not None
    assert (owner.kind, owner.name, owner.block_owner_deletion) == ("VirtualMachineInstanceReplicaSet", "web", True)


def test_a_paused_set_changes_nothing_and_says_so(replicas: Replicas) -> None:
    replicas.create(0)
    wait_until(replicas.has(0), "none")
    replicas.change(paused=True)
    wait_until(lambda: condition(replicas.get().status.conditions, "ReplicaPaused") is not None, "it is paused")
    (paused,) = replicas.get().status.conditions
    assert (paused.status, paused.reason, paused.message) == ("True", "Paused", "Controller got paused")
    replicas.change(replicas=2)
    wait_until(lambda: ("SuccessfulPaused", "Paused") in replicas.told(), "the event")
    assert replicas.vmis() == []
    replicas.change(paused=False)
    wait_until(replicas.has(2), "two VMIs")
    assert replicas.get().status.conditions == []
    wait_until(lambda: ("SuccessfulResumed", "Resumed") in replicas.told(), "the event")


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_the_end_of_a_set_is_that_of_its_vmis_unless_they_are_to_stay(
    either_server: EitherServer, replicas: Replicas, policy: str
) -> None:
    if not either_server.collects_garbage:
        pytest.skip("kube-controller-manager collects it, which does not run beside this server")
    replicas.create(2)
    wait_until(replicas.has(2), "two VMIs")
    before = replicas.names()
    replicas.delete(policy)
    sets = VirtualMachineInstanceReplicaSet
    wait_until(lambda: not replicas.client.list(sets, replicas.namespace), "the set is gone")
    if policy == "Orphan":
        assert (replicas.names(), [vmi.metadata.owner_references for vmi in replicas.vmis()]) == (before, [[], []])
    else:
        wait_until(lambda: not replicas.client.list(VirtualMachineInstance, replicas.namespace), "its VMIs are gone")


def test_what_the_server_refuses_is_a_condition_until_it_takes_it(
    either_server: EitherServer, replicas: Replicas
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"count/virtualmachineinstances.kubevirt.io": "1"}},
    }
    if not either_server.collects_garbage:
        pytest.skip("kube-controller-manager counts quotas, which does not run beside this server")
    path = f"/api/v1/namespaces/{replicas.namespace}/resourcequotas"
    replicas.client.request("POST", path, quota)
    wait_until(
        lambda: "used" in replicas.client.request("GET", f"{path}/few").get("status", {}), "the quota is counted"
    )
    replicas.create(2)
    wait_until(lambda: replicas.get().status.conditions, "a condition")
    (failure,) = replicas.get().status.conditions
    assert (failure.type, failure.status, failure.reason) == ("ReplicaFailure", "True", "FailedCreate")
    assert "exceeded quota" in failure.message
    assert len(replicas.vmis()) == 1
    wait_until(lambda: "FailedCreate" in {reason for reason, _ in replicas.told()}, "the event")
    replicas.client.request("DELETE", f"{path}/few")
    # Another generation is tried at once.
    replicas.change(replicas=3)
    wait_until(replicas.has(3), "three VMIs")
    wait_until(lambda: not replicas.get().status.conditions, "no condition")
