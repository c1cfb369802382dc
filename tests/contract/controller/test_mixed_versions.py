"""Several versions of kvedge in one cluster, on both servers: who tells what, and who takes no VM.

There is one version yet, so others are played: an older or newer handler by the annotation that it leaves on its Node,
another control plane by the status that it leaves in the KubeVirt object.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from kvedge.api.registration.registration_loop import Registration
from kvedge.api.registration.registration_manifest import Endpoint
from kvedge.controller.controller_service import ControllerRole
from kvedge.handler.guest.version_gate import VersionGate
from kvedge.handler.node.kvm_check import Accelerator
from kvedge.handler.node.node_loop import NodeLoop
from kvedge.handler.node.node_manifest import NodeCapabilities
from kvedge.handler.node.node_platform import NodePlatform
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.errors import AlreadyExists, Conflict
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.names import LAUNCHER_VERSION, REFUSAL, SCHEDULABLE, SYSTEM_NAMESPACE, VERSION
from kvedge.resources.types.core import Namespace, Node
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import SystemClock
from tests.support.builders import CONFIG, a_vmi
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

OWN = "0.1.0"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Platform:
    """A host on which nothing was probed."""

    accelerator = Accelerator(True, "as the test has it")
    capabilities = NodeCapabilities()


@pytest.fixture
def server(either_server: EitherServer) -> Iterator[EitherServer]:
    with contextlib.suppress(AlreadyExists):
        either_server.admin.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))
    sweep(either_server)
    yield either_server
    sweep(either_server)


def sweep(server: EitherServer) -> None:
    """What this test, or one before it, has left of objects that there is one set of in a cluster."""
    for item in server.admin.list(KubeVirt):
        server.admin.delete(KubeVirt, item.metadata.namespace, item.metadata.name)
    for node in server.admin.list(Node):
        server.admin.delete(Node, "", node.metadata.name)


def make_node(server: EitherServer, name: str, version: str) -> None:
    metadata = ObjectMeta(name=name, labels={SCHEDULABLE: "true"}, annotations={VERSION: version})
    server.admin.create(Node(metadata=metadata))


def test_a_newer_control_plane_names_the_nodes_and_guests_of_older_versions(server: EitherServer) -> None:
    make_node(server, "upgraded", OWN)
    make_node(server, "next", "0.0.9")
    namespace = server.new_namespace()
    for name, version in (("moved", OWN), ("stayed", "0.0.9")):
        metadata = ObjectMeta(name=name, namespace=namespace, annotations={LAUNCHER_VERSION: version})
        server.admin.create(VirtualMachineInstance(metadata=metadata, spec=a_vmi().spec))
    controller = ControllerRole(server.kubeconfig, CONFIG, leader_election=False)
    controller.start()
    try:

        def told() -> str | None:
            for item in server.admin.list(KubeVirt):
                found = condition(item.status.conditions, "AllNodesOfThisVersion")
                if found is not None and found.status == "False":
                    assert item.status.outdated_virtual_machine_instance_workloads == 1
                    return found.message
            return None

        assert wait_until(told, "the condition") == f"The control plane runs {OWN}; next runs 0.0.9"
    finally:
        controller.stop()
        for name in ("moved", "stayed"):
            server.admin.patch(VirtualMachineInstance, namespace, name, MergePatch({"metadata": {"finalizers": None}}))
            server.admin.delete(VirtualMachineInstance, namespace, name)


def control_plane_is(server: EitherServer, version: str) -> None:
    status: dict[str, Any] = {"status": {"operatorVersion": f"v{version}"}}
    server.admin.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch(status), "status")


def test_a_handler_takes_no_vm_while_its_control_plane_is_too_far_away(server: EitherServer) -> None:
    server.admin.create(Node(metadata=ObjectMeta(name="edge-1")))
    server.admin.create(
        KubeVirt(metadata=ObjectMeta(name="kubevirt", namespace=SYSTEM_NAMESPACE), spec={"configuration": {}})
    )
    follower = ConfigurationFollower(server.admin, "handler")
    follower.start()
    gate = VersionGate(follower.informer, OWN)
    platform = cast("NodePlatform", Platform())
    loop = NodeLoop(
        server.admin, "edge-1", platform, lambda: "a:1", lambda: gate.refusal, SystemClock(), MagicMock(), tuple
    )
    gate.on_change(loop.refresh)
    loop.start()

    def says() -> tuple[str, str]:
        metadata = server.admin.get(Node, "", "edge-1").metadata
        return metadata.labels.get(SCHEDULABLE, ""), metadata.annotations.get(REFUSAL, "")[:46]

    takes, refuses = ("true", ""), ("false", f"kvedge {OWN} here and 0.3.0 on the servers are")
    try:
        wait_until(lambda: says() == takes, "nobody has told of another version")
        # Two minor versions ahead, one ahead, and one behind: the last two happen while a cluster is upgraded.
        for version, expected in (("0.3.0", refuses), ("0.2.0", takes), ("0.3.0", refuses), ("0.0.9", takes)):
            control_plane_is(server, version)
            wait_until(lambda expected=expected: says() == expected, f"{expected} of {version}")
    finally:
        loop.stop()
        follower.stop()


@pytest.mark.parametrize(
    ("version", "stays"),
    [pytest.param("9.9.9", True, id="of a later version"), pytest.param("0.0.1", False, id="of an earlier version")],
)
def test_kinds_go_forward_only_while_servers_of_two_versions_write_them(
    server: EitherServer, version: str, stays: bool
) -> None:
    path = f"{_CRDS}/kubevirts.kubevirt.io"
    ours = Registration(server.admin, Endpoint("192.0.2.1", 8443, "other"))

    def written_by(release: str, *categories: str) -> None:
        body = {"metadata": {"annotations": {VERSION: release}}, "spec": {"names": {"categories": categories}}}
        server.admin.request("PATCH", path, body, None, "application/merge-patch+json")

    written_by(version, "all", "of-the-other")
    ours.write_crds()
    assert ("of-the-other" in server.admin.request("GET", path)["spec"]["names"]["categories"]) is stays
    # As it was, for the tests that follow.
    written_by("0.0.1", "all")
    ours.write_crds()


class OvertakenClient:
    """A client after whose first reads of an object somebody else writes to it."""

    def __init__(self, client: KubeClient, path: str, times: int) -> None:
        self._client = client
        self._path = path
        self.left = times
        self.hurry = client.hurry

    def request(self, verb: str, path: str, *args: Any, **options: Any) -> Any:
        answer = self._client.request(verb, path, *args, **options)
        if verb == "GET" and path == self._path and self.left:
            self.left -= 1
            body = {"metadata": {"annotations": {"test/by-another": str(self.left)}}}
            self._client.request("PATCH", path, body, None, "application/merge-patch+json")
        return answer


@pytest.mark.parametrize(("times", "written"), [(2, True), (9, False)])
def test_kinds_are_compared_again_when_somebody_else_was_faster(
    server: EitherServer, times: int, written: bool
) -> None:
    path = f"{_CRDS}/kubevirts.kubevirt.io"
    body = {"metadata": {"annotations": {VERSION: "0.0.1"}}}
    server.admin.request("PATCH", path, body, None, "application/merge-patch+json")
    client = OvertakenClient(server.admin, path, times)
    ours = Registration(cast("KubeClient", client), Endpoint("192.0.2.1", 8443, "other"))
    with contextlib.nullcontext() if written else pytest.raises(Conflict):
        ours.write_crds()
    annotations = server.admin.request("GET", path)["metadata"]["annotations"]
    assert annotations["test/by-another"] == str(client.left)
    assert annotations[VERSION] == (OWN if written else "0.0.1")
    # As it was, for the tests that follow; the API server's own loops may be faster than we, too.
    wait_until(lambda: written_whole(server), "the kinds as they were")


def written_whole(server: EitherServer) -> bool:
    with contextlib.suppress(Conflict):
        Registration(server.admin, Endpoint("192.0.2.1", 8443, "other")).write_crds()
        return True
    return False
