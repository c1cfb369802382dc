"""The api role registered with an API server: every test here runs against the embedded one and against a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.kube.credentials.connection_settings import from_kubeconfig
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.names import HANDLER_ADDRESS
from tests.contract.api.stream_parts import MERGE, Client
from tests.support.api_role_fixtures import (
    EchoNode,
    admin,
    api_role,
    controller,
    crd_condition,
    crds_installed,
    echo_node,
    guest,
    handler_client,
    judges_writes,
    remove,
    role_clock,
    subresources_answer,
    webhooks_are_called,
)
from tests.support.api_servers import ApiServerUnderTest, EmbeddedServer, Kubectl, RealServer
from tests.support.tearing_proxy import TearingProxy

# Fixtures, and what tests of this folder take from here.
__all__ = [
    "EchoNode",
    "admin",
    "api_role",
    "controller",
    "crd_condition",
    "crds_installed",
    "echo_node",
    "guest",
    "handler_client",
    "judges_writes",
    "remove",
    "role_clock",
    "subresources_answer",
    "webhooks_are_called",
]

_SERVERS = {"embedded": EmbeddedServer, "real": RealServer}


@pytest.fixture(scope="package", params=["embedded", "real"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerUnderTest]:
    """An API server without anything of ours."""
    server = _SERVERS[request.param](tmp_path_factory.mktemp(request.param))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="package")
def kubectl(server: ApiServerUnderTest) -> Kubectl:
    """kubectl of an admin."""
    return Kubectl(server.write_kubeconfig("admin", ["system:masters"]))


@pytest.fixture(scope="module")
def client(server: ApiServerUnderTest) -> Client:
    """Where a user's websockets go."""
    connection = from_kubeconfig(server.write_kubeconfig("admin", ["system:masters"]))
    assert connection.tls is not None
    return Client(connection.host, connection.tls)


@pytest.fixture
def second_node(admin: KubeClient) -> Iterator[str]:
    """A node that takes VMs, besides that of the guest."""
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "second"}}
    document["metadata"] |= {"labels": {"kubevirt.io/schedulable": "true", "zone": "b"}}
    admin.request("POST", "/api/v1/nodes", document)
    yield "second"
    admin.request("DELETE", "/api/v1/nodes/second")


@pytest.fixture
def network(admin: KubeClient, echo_node: EchoNode) -> Iterator[TearingProxy]:
    """What lies between the api role and the relay."""
    path = f"/api/v1/nodes/{echo_node.name}"

    def relay_at(address: str) -> None:
        admin.request("PATCH", path, {"metadata": {"annotations": {HANDLER_ADDRESS: address}}}, None, MERGE)

    host, _, port = echo_node.relay.address.rpartition(":")
    with TearingProxy(host, int(port)) as proxy:
        relay_at(f"127.0.0.1:{proxy.port}")
        yield proxy
        relay_at(echo_node.relay.address)
