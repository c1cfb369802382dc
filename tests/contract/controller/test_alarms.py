"""Alarms come and go with the controller against both servers, under its own rights; a webhook and a relay are told."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from kvedge.client.alarms import fetch_alarms
from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.alarms.alarm_names import RECEIVERS_FILE, RECEIVERS_SECRET
from kvedge.resources.alarms.node_health import HOST_HEALTH, NodeHealth, health_text
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import ALARM, SYSTEM_NAMESPACE
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Event, Namespace, Node, Secret
from tests.support.builders import CONFIG
from tests.support.certificate_files import FileAuthority
from tests.support.either_server import EitherServer
from tests.support.https_backend import HttpsBackend
from tests.support.smtp_sink import SmtpSink
from tests.support.waiting import wait_until


@contextmanager
def make_role(server: EitherServer) -> Iterator[ControllerRole]:
    """Under its own name, with its own rights."""
    role = ControllerRole(server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    try:
        yield role
    finally:
        role.stop()


@pytest.fixture(scope="module", autouse=True)
def system_namespace(either_server: EitherServer) -> None:
    with suppress(AlreadyExists):
        either_server.admin.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))


@pytest.fixture
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    with make_role(either_server) as role:
        yield role


class Outside:
    """A webhook and a mail relay of the site, which a Secret names."""

    def __init__(self, directory: Path, sink: SmtpSink, authority: FileAuthority) -> None:
        self.sink = sink
        self.posted: list[Any] = []
        self.is_down = False
        self.backend = HttpsBackend(directory / "hook", self._take, "127.0.0.1", ["127.0.0.1"])
        hook_ca = base64.b64decode(self.backend.ca_bundle).decode()
        hook = {"name": "noc", "url": f"https://127.0.0.1:{self.backend.start()}/", "token": "t0ken", "ca": hook_ca}
        mail = {"name": "admins", "relay": f"127.0.0.1:{sink.port}", "from": "kvedge@site.example"}
        mail |= {"to": ["ann@site.example"], "user": "box", "password": "p4ss", "ca": authority.ca.read_text()}
        self.document = yaml.safe_dump({"webhooks": [hook], "mail": [mail]})

    async def _take(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer t0ken" or self.is_down:
            return web.Response(status=503)
        self.posted.append(await request.json())
        return web.Response()

    def alerts_of(self, name: str) -> list[tuple[str, str]]:
        """What the webhook was told of one node, in this order."""
        alerts = [alert for document in self.posted for alert in document["alerts"]]
        return [(each["labels"]["alertname"], each["status"]) for each in alerts if each["labels"]["name"] == name]

    def mails_of(self, name: str) -> list[str]:
        texts = [str(each.mail.get_content()) for each in self.sink.deliveries]  # type: ignore[attr-defined]
        return [text for text in texts if name in text]


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    authority = FileAuthority(tmp_path, "site")
    with SmtpSink(pair=authority.issue("relay", hosts=["127.0.0.1"]), password="p4ss") as sink:
        outside = Outside(tmp_path, sink, authority)
        yield outside
        outside.backend.stop()


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

    def told(self) -> dict[str, str]:
        found = [each for each in fetch_alarms(self.client).alarms if each.name == self.name]
        return dict(found[0].told) if found else {}

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


def test_a_webhook_and_a_relay_are_told_once_whatever_restarts(
    either_server: EitherServer, outside: Outside, node: SickNode
) -> None:
    data = {RECEIVERS_FILE: base64.b64encode(outside.document.encode()).decode()}
    secret = Secret(metadata=ObjectMeta(name=RECEIVERS_SECRET, namespace=SYSTEM_NAMESPACE), data=data)
    either_server.admin.create(secret)
    with make_role(either_server) as role:
        node.say(certificate_end="2026-01-01T00:00:00Z")
        wait_until(lambda: outside.alerts_of(node.name), "the webhook is told", 90)
        wait_until(lambda: outside.mails_of(node.name), "the relay is told", 90)
        assert role.failure() is None
    wait_until(lambda: set(node.told()) == {"noc", "admins"}, "it is written down who was told", 10)
    with make_role(either_server):
        outside.posted.clear()
        outside.sink.deliveries.clear()
        node.say(certificate_end="2126-01-01T00:00:00Z")
        wait_until(lambda: outside.alerts_of(node.name), "the webhook is told of the end", 90)
        wait_until(lambda: outside.mails_of(node.name), "the relay is told of the end", 90)
    # Nothing of before was told again.
    assert outside.alerts_of(node.name) == [("CertificateEnding", "resolved")]
    [mail] = outside.sink.deliveries
    assert (mail.encrypted, mail.user) == (True, "box")
    assert "over: CertificateEnding" in mail.mail["Subject"]
    either_server.admin.delete(Secret, SYSTEM_NAMESPACE, RECEIVERS_SECRET)
