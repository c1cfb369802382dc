"""A node that is emptied, with the controller under its own rights, against both servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Event, Node
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.builders import CONFIG, small_vmi
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

NODE: Final = "leaving"
IN_PROGRESS: Final = "descheduler.alpha.kubernetes.io/eviction-in-progress"


@pytest.fixture(scope="module")
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    """Under its own name, with its own rights."""
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield role
    role.stop()


class Leaving:
    """A guest that can move, on a node of its own."""

    def __init__(self, server: EitherServer, namespace: str) -> None:
        self.client: KubeClient = server.admin
        self.namespace = namespace
        self.server = server
        self.node = PlayedNode(server, namespace)

    def run(self) -> None:
        self.client.create(Node(metadata=ObjectMeta(name=NODE)))
        document = small_vmi(evictionStrategy="LiveMigrate")
        document["metadata"] |= {"name": "web", "namespace": self.namespace}
        self.client.request("POST", VirtualMachineInstance.KIND.path(self.namespace), document)
        self.server.bind(self.node.pod(), NODE)
        self.node.starts(self.node.pod())
        self.node.runs()
        self.say(conditions=[{"type": "LiveMigratable", "status": "True"}])

    def say(self, **status: object) -> None:
        self.client.patch(VirtualMachineInstance, self.namespace, "web", MergePatch({"status": status}))

    def taint(self, *taints: dict[str, str]) -> None:
        self.client.patch(Node, "", NODE, MergePatch({"spec": {"taints": list(taints)}}))

    def migrations(self) -> list[VirtualMachineInstanceMigration]:
        return self.client.list(VirtualMachineInstanceMigration, self.namespace)

    def requested(self) -> Condition | None:
        return condition(self.node.vmi().status.conditions, "EvictionRequested")

    def end(self) -> None:
        for migration in self.migrations():
            meta = migration.metadata
            self.client.patch(
                VirtualMachineInstanceMigration,
                self.namespace,
                meta.name,
                MergePatch({"metadata": {"finalizers": None}}),
            )
            self.client.delete(VirtualMachineInstanceMigration, self.namespace, meta.name)
        self.client.delete(VirtualMachineInstance, self.namespace, "web")
        for pod in self.node.pods():
            self.node.removes(pod)
        self.client.delete(Node, "", NODE)


@pytest.fixture
def leaving(role: ControllerRole, either_server: EitherServer, namespace: str) -> Iterator[Leaving]:
    leaving = Leaving(either_server, namespace)
    leaving.run()
    yield leaving
    leaving.end()


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda leaving: leaving.say(evacuationNodeName=NODE), id="by a mark"),
        pytest.param(
            lambda leaving: leaving.taint({"key": "kubevirt.io/drain", "effect": "NoSchedule"}), id="by taint"
        ),
    ],
)
def test_a_guest_that_is_to_leave_gets_a_migration(leaving: Leaving, ask: Callable[[Leaving], None]) -> None:
    ask(leaving)
    (migration,) = wait_until(leaving.migrations, "a migration")
    meta = migration.metadata
    assert meta.name.startswith("kubevirt-evacuation-")
    assert meta.annotations["kubevirt.io/evacuationMigration"] == NODE
    assert (migration.spec.vmi_name, migration.spec.priority) == ("web", "system-critical")

    def is_told() -> bool:
        events = leaving.client.list(Event, leaving.namespace)
        return (f"Created Migration {meta.name}") in {event.message for event in events}

    wait_until(is_told, "an event tells")
    assert len(leaving.migrations()) == 1


def test_a_mark_shows_while_it_is_there(leaving: Leaving) -> None:
    def annotated() -> bool:
        # The guest's migration makes another Pod.
        (source,) = [pod for pod in leaving.node.pods() if pod.spec.node_name == NODE]
        return IN_PROGRESS in source.metadata.annotations

    leaving.say(evacuationNodeName=NODE)
    wait_until(lambda: leaving.requested() is not None and annotated(), "the mark shows")
    found = leaving.requested()
    assert found is not None
    assert (found.status, found.message) == ("True", "VMI is marked for eviction")
    leaving.say(evacuationNodeName=None)
    wait_until(lambda: leaving.requested() is None and not annotated(), "it shows no more")
