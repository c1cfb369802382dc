"""Both servers, for the tests of the controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from tests.contract.controller.played_node import PlayedNode
from tests.support.builders import CONFIG
from tests.support.either_server import EMBEDDED, REAL, EitherServer, running


@pytest.fixture(scope="package", params=[EMBEDDED, REAL])
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EitherServer]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture
def namespace(either_server: EitherServer) -> str:
    return either_server.new_namespace()


@pytest.fixture
def node(either_server: EitherServer, namespace: str) -> Iterator[PlayedNode]:
    """What a namespace's node is seen to do, beside a controller that works; some files have another one."""
    kubeconfig = either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP)
    role = ControllerRole(kubeconfig, CONFIG, leader_election=False)
    role.start()
    try:
        yield PlayedNode(either_server, namespace)
        assert role.failure() is None
    finally:
        role.stop()
