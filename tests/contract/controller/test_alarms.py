"""Alarms come and go with the controller against both servers, under its own rights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from kvedge.client.alarms import fetch_alarms
from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.alarms.node_health import HOST_HEALTH, NodeHealth, health_text
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import ALARM, SYSTEM_NAMESPACE
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Event, Namespace, Node
from tests.support.builders import CONFIG
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until


@pytest.fixture
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    """Under its own name, with its own rights."""
    with contextlib.suppress(AlreadyExists):
        either_server.admin.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield role
    role.stop()


class SickNode:
    """A node whose handler says how its host is."""

    def __init__(self, client: KubeClient, name: str) -> None:
        self.client, self.name = client, name
        client.create(Node(metadata=ObjectMeta(name=name)))

    def say(self, **health: object) -> None:
        annotations = {HOST_HEALTH: health_text(NodeHealth(**health))}  # type: ignore[arg-type]
        self.client.patch(Node, "", self.name, MergePatch({"metadata": {"annotations": annotations}}))

    def condition(self) -> tuple[object, object]:
        found = self.client.get(Node, "", self.name).status.conditions
        return next(((each["status"], each["reason"]) for each in found if each["type"] == ALARM), ("", ""))

    def raised(self) -> list[str]:
        return [each.rule for each in fetch_alarms(self.client).firing if each.name == self.name]


@pytest.fixture
def node(either_server: EitherServer, namespace: str) -> Iterator[SickNode]:
    node = SickNode(either_server.admin, f"sick-{namespace}")
    yield node
    node.client.delete(Node, "", node.name)


def test_an_alarm_is_raised_shown_on_its_node_and_cleared(role: ControllerRole, node: SickNode) -> None:
    node.say(certificate_end="2026-01-01T00:00:00Z")
    wait_until(lambda: node.raised() == ["CertificateEnding"], "the alarm is raised", 60)
    wait_until(lambda: node.condition() == ("True", "CertificateEnding"), "the Node shows it", 10)
    node.say(certificate_end="2126-01-01T00:00:00Z")
    wait_until(lambda: node.raised() == [], "the alarm is over", 60)
    wait_until(lambda: node.condition() == ("False", "NoAlarm"), "the Node shows that, too", 10)

    def told() -> set[tuple[str, str]]:
        events = node.client.list(Event, "default")
        return {(each.type, each.reason) for each in events if each.involved_object.name == node.name}

    wait_until(lambda: told() >= {("Warning", "CertificateEnding"), ("Normal", "AlarmCleared")}, "events tell of it")
