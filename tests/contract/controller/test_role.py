"""The controller as a service: elections, and a server that is not there."""

from __future__ import annotations

import threading
import time

import pytest

from kvedge.controller import controller_service
from kvedge.controller.controller_service import ControllerError, ControllerRole
from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.cluster import Lease
from kvedge.resources.types.core import Namespace
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.builders import CONFIG
from tests.support.either_server import EitherServer
from tests.support.scripted_api import refusing, scripted_api
from tests.support.waiting import wait_until


@pytest.fixture
def system_namespace(either_server: EitherServer) -> None:
    try:
        either_server.admin.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))
    except AlreadyExists:
        return


def test_of_two_controllers_one_works_and_the_other_takes_over(either_server, system_namespace, namespace):
    one = ControllerRole(either_server.kubeconfig, CONFIG, leader_election=True)
    two = ControllerRole(either_server.kubeconfig, CONFIG, leader_election=True)
    one.start()
    wait_until(lambda: one._work is not None and one.ready, "the first works")
    two.start()
    wait_until(lambda: two.ready, "the second stands by")
    assert two._work is None
    either_server.admin.create(VirtualMachineInstance(metadata=ObjectMeta(name="web", namespace=namespace)))
    node = PlayedNode(either_server, namespace)
    node.pod()
    one.stop()
    assert one._work is None
    wait_until(lambda: two._work is not None and two.ready, "the second works", seconds=14)
    either_server.admin.delete(VirtualMachineInstance, namespace, "web")
    wait_until(lambda: not node.pods(), "the second has ended the Pod")
    two.stop()
    assert either_server.admin.get(Lease, SYSTEM_NAMESPACE, controller_service.LEASE_NAME).spec.holder_identity == ""


def test_stopping_takes_little_and_leaves_no_thread(either_server):
    before = {thread.ident for thread in threading.enumerate()}
    role = ControllerRole(either_server.kubeconfig, CONFIG, leader_election=False)
    role.start()
    assert role.ready
    begun = time.monotonic()
    role.stop()
    assert time.monotonic() - begun < 10
    left = [thread.name for thread in threading.enumerate() if thread.ident not in before]
    assert [name for name in left if not name.startswith(("kvedge-", "asyncio"))] == []


def test_a_role_that_never_started_can_be_stopped(tmp_path):
    ControllerRole(tmp_path / "kubeconfig", CONFIG, leader_election=False).stop()


def test_a_kubeconfig_that_is_not_there_is_said_at_the_start(tmp_path):
    with pytest.raises(KubeconfigError, match="kubeconfig: cannot be read"):
        ControllerRole(tmp_path / "kubeconfig", CONFIG, leader_election=False).start()


def test_a_server_that_does_not_serve_our_kinds_is_said_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(controller_service, "_SYNC_SECONDS", 0.5)
    with scripted_api(refusing(404, "NotFound", "the server could not find the requested resource")) as api:
        role = ControllerRole(api.write_kubeconfig(tmp_path / "kubeconfig"), CONFIG, leader_election=False)
        with pytest.raises(ControllerError, match="are kvedge's CRDs installed"):
            role.start()
        assert role.failure() is None
        role.stop()
