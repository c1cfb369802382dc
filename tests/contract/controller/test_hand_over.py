"""One controller after the other: the one that leads is killed, or stopped and woken up when another leads."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvedge.controller.controller_service import LEASE_NAME
from kvedge.kube.errors import AlreadyExists, NotFound
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.cluster import Lease
from kvedge.resources.types.core import Namespace, Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

# A lease is over after 12 s, and taken within two more; the rest is for a machine that does much else.
HAND_OVER_SECONDS = 30.0


class LoneController:
    """One process; what it writes is in a file."""

    def __init__(self, kubeconfig: Path, output: Path) -> None:
        self._output = output
        command = [sys.executable, "-m", "tests.contract.controller.lone_controller", str(kubeconfig)]
        with output.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[3], start_new_session=True
            )
        wait_until(lambda: "started" in self.lines(), "a controller campaigns", seconds=60)

    def lines(self) -> list[str]:
        return self._output.read_text().splitlines()

    def signals(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def ends(self) -> None:
        if self.process.poll() is None:
            self.signals(signal.SIGCONT)
            self.process.kill()
            self.process.wait(10)


@pytest.fixture
def controller(either_server: EitherServer, tmp_path: Path) -> Iterator[Callable[[str], LoneController]]:
    with contextlib.suppress(AlreadyExists):
        either_server.admin.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))
    with contextlib.suppress(NotFound):
        either_server.admin.delete(Lease, SYSTEM_NAMESPACE, LEASE_NAME)
    kubeconfig = either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP)
    made: list[LoneController] = []

    def start(name: str) -> LoneController:
        made.append(LoneController(kubeconfig, tmp_path / name))
        return made[-1]

    yield start
    for one in made:
        one.ends()


@pytest.fixture
def node(either_server: EitherServer, namespace: str) -> PlayedNode:
    return PlayedNode(either_server, namespace)


def create(server: EitherServer, node: PlayedNode, name: str) -> VirtualMachineInstance:
    return server.admin.create(VirtualMachineInstance(metadata=ObjectMeta(name=name, namespace=node.namespace)))


def pods_of(node: PlayedNode, vmi: VirtualMachineInstance) -> list[Pod]:
    owners = [(pod, pod.metadata.controller_reference()) for pod in node.pods()]
    return [pod for pod, owner in owners if owner is not None and owner.uid == vmi.metadata.uid]


def holder(server: EitherServer) -> str:
    return server.admin.get(Lease, SYSTEM_NAMESPACE, LEASE_NAME).spec.holder_identity


def creations(controller: LoneController, node: PlayedNode) -> int:
    """How many Pods it has made there: what other tests have left on the server is not counted."""
    return sum(line.startswith("POST ") and line.endswith(f"/{node.namespace}/pods") for line in controller.lines())


def test_a_leader_that_is_killed_is_followed_and_nothing_is_done_twice(either_server, controller, node):
    one = controller("one")
    first = create(either_server, node, "first")
    wait_until(lambda: pods_of(node, first), "the first controller works")
    # The server has the Pod before its maker tells of it.
    wait_until(lambda: creations(one, node), "the first controller tells its Pod")
    two = controller("two")
    one.process.kill()
    one.process.wait(10)
    second = create(either_server, node, "second")
    wait_until(lambda: pods_of(node, second), "the second controller works", seconds=HAND_OVER_SECONDS)
    for vmi in (first, second):
        assert len(pods_of(node, vmi)) == 1
    assert (creations(one, node), creations(two, node)) == (1, 1)


def test_a_leader_that_slept_through_its_lease_wakes_up_and_does_nothing(either_server, controller, node):
    one = controller("one")
    first = create(either_server, node, "first")
    wait_until(lambda: pods_of(node, first), "the first controller works")
    # Asleep it would never tell of a Pod that the server has just made for it.
    wait_until(lambda: creations(one, node), "the first controller tells its Pod")
    two = controller("two")
    led_by_one = holder(either_server)
    one.signals(signal.SIGSTOP)
    # Its watch has this for it when it wakes up.
    second = create(either_server, node, "second")
    wait_until(lambda: pods_of(node, second), "the second controller works", seconds=HAND_OVER_SECONDS)
    led_by_two = holder(either_server)
    assert led_by_two != led_by_one
    before = len(one.lines())
    one.signals(signal.SIGCONT)
    third = create(either_server, node, "third")
    wait_until(lambda: pods_of(node, third), "the second controller goes on")
    node_of = {vmi.metadata.name: pods_of(node, vmi) for vmi in (second, third)}
    assert [len(pods) for pods in node_of.values()] == [1, 1]
    assert one.lines()[before:] == []
    assert holder(either_server) == led_by_two
    # It stands by again, and follows when it must.
    assert one.process.poll() is None
    two.signals(signal.SIGTERM)
    # Until it has ended it may still do what comes.
    wait_until(lambda: two.process.poll() is not None, "the second controller ends")
    fourth = create(either_server, node, "fourth")
    wait_until(lambda: pods_of(node, fourth), "the first controller works again")
    # It logs a Pod once the server has said that it is made.
    wait_until(lambda: creations(one, node) > 1, "the first controller tells its second Pod")
    assert creations(one, node) == 2
