"""Events on both servers."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from kvedge.kube import events
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Event, Node
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.either_server import EitherServer
from tests.support.scripted_api import refusing, scripted_api
from tests.support.waiting import wait_until


@pytest.fixture
def vmi(namespace: str) -> VirtualMachineInstance:
    return VirtualMachineInstance(metadata=ObjectMeta(name="web", namespace=namespace, uid="some-uid"))


def test_an_event_says_what_happened_to_what(either_server: EitherServer, namespace: str, vmi: VirtualMachineInstance):
    recorder = EventRecorder(either_server.admin, "controller", "node-1")
    recorder.start()
    recorder.record(vmi, "Warning", "FailedCreate", "no room")
    (event,) = wait_until(lambda: either_server.admin.list(Event, namespace), "the event is there")
    recorder.stop()
    involved = event.involved_object
    assert (involved.api_version, involved.kind, involved.name, involved.uid) == (
        "kubevirt.io/v1",
        "VirtualMachineInstance",
        "web",
        "some-uid",
    )
    assert (event.type, event.reason, event.message, event.count) == ("Warning", "FailedCreate", "no room", 1)
    assert (event.source.component, event.source.host) == ("controller", "node-1")
    assert event.first_timestamp == event.last_timestamp


def test_the_same_again_is_counted_and_something_else_is_not(either_server, namespace, vmi):
    recorder = EventRecorder(either_server.admin, "controller")
    recorder.start()
    for _ in range(5):
        recorder.record(vmi, "Warning", "FailedCreate", "no room")
    wait_until(lambda: [event.count for event in either_server.admin.list(Event, namespace)] == [5], "five of one")
    recorder.record(vmi, "Warning", "FailedCreate", "no room")
    recorder.record(vmi, "Normal", "SuccessfulCreate", "done")
    wait_until(
        lambda: sorted(event.count for event in either_server.admin.list(Event, namespace)) == [1, 6], "six, and one"
    )
    recorder.stop()


def test_an_event_that_the_server_has_forgotten_is_made_anew(either_server, namespace, vmi):
    recorder = EventRecorder(either_server.admin, "controller")
    recorder.start()
    recorder.record(vmi, "Normal", "Created", "done")
    (event,) = wait_until(lambda: either_server.admin.list(Event, namespace), "the event is there")
    either_server.admin.delete(Event, namespace, event.metadata.name)
    recorder.record(vmi, "Normal", "Created", "done")
    wait_until(lambda: [event.count for event in either_server.admin.list(Event, namespace)] == [1], "a new one")
    recorder.stop()


def test_events_of_nodes_are_in_the_default_namespace(either_server):
    recorder = EventRecorder(either_server.admin, "handler")
    recorder.start()
    recorder.record(Node(metadata=ObjectMeta(name="far-away", uid="u")), "Warning", "NodeUnresponsive", "silent")
    selector = "involvedObject.name=far-away"
    wait_until(lambda: either_server.admin.list(Event, "default", field_selector=selector), "the event is there")
    recorder.stop()


def test_what_was_recorded_before_the_end_is_sent(either_server, namespace, vmi, monkeypatch):
    monkeypatch.setattr(events, "_STOP_SECONDS", 60.0)
    recorder = EventRecorder(either_server.admin, "controller")
    recorder.start()
    for number in range(10):
        recorder.record(vmi, "Normal", f"Reason{number}", "done")
    recorder.stop()
    assert len(either_server.admin.list(Event, namespace)) == 10


def test_recording_neither_waits_nor_grows_while_the_server_is_away(tmp_path: Path):
    with scripted_api(refusing(503, "ServiceUnavailable")) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        recorder = EventRecorder(client, "controller")
        recorder.start()
        vmi = VirtualMachineInstance(metadata=ObjectMeta(name="web", namespace="default"))
        begun = time.monotonic()
        for number in range(5000):
            recorder.record(vmi, "Normal", f"Reason{number}", "x" * 5000)
        assert time.monotonic() - begun < 20
        assert len(recorder._pending) <= 1000
        begun = time.monotonic()
        recorder.stop()
        assert time.monotonic() - begun < 10


def test_an_event_whose_namespace_is_going_is_no_missing_right(
    either_server: EitherServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The server calls it forbidden, which an operator would look for in roles and bindings."""
    caplog.set_level(logging.DEBUG, "kvedge.kube.events")
    name = f"ending-{either_server.kind}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "finalizers": ["example.org/wait"]}}
    either_server.admin.request("POST", "/api/v1/namespaces", body)
    either_server.admin.request("DELETE", f"/api/v1/namespaces/{name}")
    recorder = EventRecorder(either_server.admin, "handler")
    recorder.start()
    vmi = VirtualMachineInstance(metadata=ObjectMeta(name="web", namespace=name, uid="some-uid"))
    recorder.record(vmi, "Normal", "Stopped", "gone")

    def told() -> list[int]:
        return [record.levelno for record in caplog.records if record.getMessage() == "event not recorded"]

    wait_until(told, "the server refuses it")
    recorder.stop()
    either_server.admin.request(
        "PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"finalizers": None}}, None, "application/merge-patch+json"
    )
    assert told() == [logging.DEBUG]
