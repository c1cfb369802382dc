"""Launcher Pods that the server, or somebody's webhook, refuses, changes or only seems to refuse; on both servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import KubeError, Unavailable
from kvedge.kube.patches import MergePatch
from kvedge.kube.rest_edge import Call, RestEdge
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Namespace, Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.builders import CONFIG
from tests.support.either_server import REAL, EitherServer
from tests.support.waiting import wait_until

Answer = Callable[[Call, Callable[[], bytes]], bytes]
_ENFORCE = "pod-security.kubernetes.io/enforce"


@pytest.fixture(autouse=True)
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    kubeconfig = either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP)
    role = ControllerRole(kubeconfig, CONFIG, leader_election=False)
    role.start()
    yield role
    assert role.failure() is None
    role.stop()


@pytest.fixture
def node(either_server: EitherServer, namespace: str) -> PlayedNode:
    return PlayedNode(either_server, namespace)


@pytest.fixture
def on_create(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """What happens to the next calls that create a Pod, one after the other; then they go through."""
    answers: list[Answer] = []
    once = RestEdge._send_once

    def answering(self, call, patience):
        if call.method == "POST" and call.path.endswith("/pods") and answers:
            return answers.pop(0)(call, lambda: once(self, call, patience))
        return once(self, call, patience)

    monkeypatch.setattr(RestEdge, "_send_once", answering)
    return answers


def refusing(status: int, message: str, retry_after: float | None = None) -> Answer:
    error = (Unavailable if status in (429, 503) else KubeError)(status, "", message)
    error.retry_after = retry_after

    def refuse(call: Call, go_on: Callable[[], bytes]) -> bytes:
        raise error

    return refuse


def losing_the_answer(call: Call, go_on: Callable[[], bytes]) -> bytes:
    go_on()
    raise Unavailable(0, "Unreachable", "the connection broke")


def create(server: EitherServer, namespace: str) -> None:
    server.admin.create(VirtualMachineInstance(metadata=ObjectMeta(name="web", namespace=namespace)))


def complaint(node: PlayedNode) -> str:
    found = condition(node.vmi().status.conditions, "Synchronized")
    return found.message if found is not None and found.reason == "FailedCreate" else ""


def test_a_namespace_that_is_too_strict_is_told_how_to_be_labelled(either_server, node):
    if either_server.kind != REAL:
        pytest.skip("needs a kube-apiserver: on one box the controller is let by, its launchers need the host's files")
    label = MergePatch({"metadata": {"labels": {_ENFORCE: "restricted"}}})
    either_server.admin.patch(Namespace, "", node.namespace, label)
    create(either_server, node.namespace)
    text = wait_until(lambda: complaint(node), "the VMI says why")
    assert "violates PodSecurity" in text
    assert f"kubectl label namespace {node.namespace} {_ENFORCE}=privileged --overwrite" in text
    label = MergePatch({"metadata": {"labels": {_ENFORCE: "privileged"}}})
    either_server.admin.patch(Namespace, "", node.namespace, label)
    node.pod()
    wait_until(lambda: not complaint(node), "and no longer")


def test_a_quota_that_is_too_small_is_told_and_kept(either_server, node):
    path = f"/api/v1/namespaces/{node.namespace}/resourcequotas"
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
    made = either_server.admin.request("POST", path, quota)
    if either_server.kind == REAL:
        # Admission looks at the status, which the controller manager keeps otherwise.
        made["status"] = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
        either_server.admin.request("PUT", f"{path}/small/status", made)
    create(either_server, node.namespace)
    text = wait_until(lambda: complaint(node), "the VMI says why")
    assert "exceeded quota: small" in text
    assert f"kubectl describe resourcequota -n {node.namespace}" in text
    either_server.admin.request("DELETE", f"{path}/small")
    node.pod()


def test_what_a_webhook_says_reaches_the_user_and_the_pod_is_tried_again(either_server, node, on_create):
    said = 'admission webhook "policy.example.com" denied the request: no'
    on_create += [refusing(400, said)]
    create(either_server, node.namespace)
    assert wait_until(lambda: complaint(node), "the VMI says why") == f"Error creating pod: {said}"
    node.pod()
    wait_until(lambda: not complaint(node), "and no longer")


def test_a_server_that_is_busy_is_asked_later_without_a_word_and_nothing_is_doubled(either_server, node, on_create):
    on_create += [refusing(429, "slow down", 0.3), refusing(503, "etcd leader changed", 0.3), losing_the_answer]
    create(either_server, node.namespace)
    wait_until(lambda: node.vmi().status.phase == "Scheduling", "the VMI has a Pod")
    assert len(node.pods()) == 1
    assert on_create == []
    assert condition(node.vmi().status.conditions, "Synchronized") is None


def test_a_pod_that_got_a_sidecar_from_a_webhook_is_taken_over_and_ends_with_its_launcher(
    either_server, node, on_create
):
    def inject(call: Call, go_on: Callable[[], bytes]) -> bytes:
        document = msgspec.json.decode(call.body or b"")
        document["metadata"].setdefault("labels", {})["mesh"] = "on"
        document["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy:1"})
        document["metadata"]["namespace"] = node.namespace
        made = either_server.admin.request("POST", call.path, document)
        return msgspec.json.encode(made)

    on_create += [inject]
    create(either_server, node.namespace)
    pod = node.pod()
    assert [container.name for container in pod.spec.containers] == ["proxy", "compute"]
    either_server.bind(pod, "node-1")
    running = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}
    starting = {"waiting": {"reason": "PodInitializing"}}
    node.reports(pod, "Running", {"proxy": starting, "compute": running})
    node.runs()
    assert node.vmi().status.launcher_container_image_version == LAUNCHER_IMAGE
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    # The kubelet calls the Pod running as long as the sidecar does.
    node.reports(pod, "Running", {"proxy": running, "compute": ended})
    node.enters("Succeeded")
    either_server.admin.delete(VirtualMachineInstance, node.namespace, "web")
    wait_until(lambda: node.pods()[0].metadata.deletion_timestamp, "the Pod is asked to end")
    node.removes(pod)
    wait_until(lambda: not either_server.admin.list(VirtualMachineInstance, node.namespace), "the VMI is gone")
    assert either_server.admin.list(Pod, node.namespace) == []
