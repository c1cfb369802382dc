"""Fixtures: the api role registered with an API server, and a node whose guests echo.

The conftest of a tier imports them and has the fixture `server`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.handler.launchers.relay_service import RelayConfig, RelayService
from kvedge.kube.errors import Invalid, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.crd_manifest import crds
from kvedge.resources.names import HANDLER_ADDRESS
from kvedge.resources.role_users import (
    API_GROUP,
    API_USER,
    CONTROLLER_GROUP,
    CONTROLLER_USER,
    HANDLER_GROUP,
    handler_user,
)
from tests.support.api_servers import ApiServerUnderTest
from tests.support.builders import small_vmi, vm_of
from tests.support.clocks import TurnedClock
from tests.support.echo_door import EchoDoor
from tests.support.role_rights import give_roles_their_rights
from tests.support.waiting import wait_until

_MERGE = "application/merge-patch+json"
_VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
_VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="package")
def admin(server: ApiServerUnderTest) -> Iterator[KubeClient]:
    """A client that may do everything."""
    client = KubeClient.from_kubeconfig(server.write_kubeconfig("admin", ["system:masters"]))
    if server.name == "real":
        give_roles_their_rights(client)
    yield client
    client.close()


@pytest.fixture(scope="package")
def controller(server: ApiServerUnderTest, admin: KubeClient) -> Iterator[KubeClient]:
    """A client that speaks as the controller."""
    client = KubeClient.from_kubeconfig(server.write_kubeconfig(CONTROLLER_USER, [CONTROLLER_GROUP]))
    yield client
    client.close()


def handler_client(server: ApiServerUnderTest, node: str) -> KubeClient:
    """A client that speaks as the handler of a node."""
    return KubeClient.from_kubeconfig(server.write_kubeconfig(handler_user(node), [HANDLER_GROUP]))


@pytest.fixture(scope="package")
def role_clock(server: ApiServerUnderTest) -> TurnedClock:
    """The clock that the role looks at."""
    return TurnedClock()


@pytest.fixture(scope="package")
def api_role(server: ApiServerUnderTest, admin: KubeClient, role_clock: TurnedClock) -> Iterator[ApiRole]:
    """The api role, registered under its own user."""
    kubeconfig = server.write_kubeconfig(API_USER, [API_GROUP])
    role = ApiRole(kubeconfig, f"{server.listen_host}:0", clock=role_clock)
    role.start()
    yield role
    role.stop()


@pytest.fixture(scope="package")
def crds_installed(admin: KubeClient, api_role: ApiRole) -> None:
    """The server knows our kinds, as the api role has told it."""
    for document in crds():
        name = document["metadata"]["name"]
        wait_until(lambda name=name: crd_condition(admin, name, "Established"), f"{name} is established")


@pytest.fixture(scope="package")
def webhooks_are_called(admin: KubeClient, crds_installed: None) -> None:
    """A server needs a moment to follow its own webhook configuration."""
    wait_until(lambda: judges_writes(admin), "the webhooks are called")


@pytest.fixture(scope="package")
def subresources_answer(admin: KubeClient, webhooks_are_called: None) -> None:
    """A server needs a moment until it forwards to an aggregated API."""

    def answers() -> bool:
        try:
            admin.request("GET", "/apis/subresources.kubevirt.io/v1/version")
        except KubeError:
            return False
        return True

    wait_until(answers, "the aggregated API answers")


@dataclass(frozen=True)
class EchoNode:
    """A node whose guests echo: its handler's relay is real, what stands behind it is a socket of the tests."""

    name: str
    door: EchoDoor
    relay: RelayService


@pytest.fixture(scope="package")
def echo_node(
    server: ApiServerUnderTest, admin: KubeClient, api_role: ApiRole, role_clock: TurnedClock
) -> Iterator[EchoNode]:
    """The node, known to the API server."""
    client, door = handler_client(server, "echo"), EchoDoor()
    node = EchoNode("echo", door, RelayService(client, RelayConfig("echo"), door, role_clock))
    node.relay.start()
    wait_until(lambda: node.relay.address, "the relay serves")
    annotations = {HANDLER_ADDRESS: node.relay.address}
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "annotations": annotations}}
    admin.request("POST", "/api/v1/nodes", document)
    yield node
    node.relay.stop()
    client.close()
    admin.request("DELETE", f"/api/v1/nodes/{node.name}")


@pytest.fixture(scope="module")
def guest(admin: KubeClient, controller: KubeClient, echo_node: EchoNode) -> Iterator[JsonObject]:
    """A running VMI on the node whose guests echo."""
    controller.request("POST", _VMIS, small_vmi())
    status = {"phase": "Running", "nodeName": echo_node.name, "conditions": []}
    yield controller.request("PATCH", f"{_VMIS}/small", {"status": status}, None, _MERGE)
    remove(controller, f"{_VMIS}/small")


def judges_writes(admin: KubeClient) -> bool:
    """Whether a VM that cannot be is refused, for what is in it."""
    try:
        admin.request("POST", _VMS, vm_of(small_vmi(domain__devices__gpus=[{"name": "g"}])), {"dryRun": "All"})
    except Invalid:
        return True
    except KubeError:
        # Nobody answers yet whom the API server would ask.
        return False
    return False


def remove(client: KubeClient, path: str) -> None:
    """Delete an object at once: no controller is here to take its finalizers off."""
    client.request("PATCH", path, {"metadata": {"finalizers": None}}, None, "application/merge-patch+json")
    # One that somebody had asked to go before is gone now.
    with contextlib.suppress(NotFound):
        client.request("DELETE", path)


def crd_condition(admin: KubeClient, name: str, type_: str) -> bool:
    """Whether a condition of a CRD is True."""
    status = admin.request("GET", f"{_CRDS}/{name}").get("status") or {}
    return any(item["type"] == type_ and item["status"] == "True" for item in status.get("conditions") or ())
