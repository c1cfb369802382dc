"""What is asked for the newest warnings, and for how long: a server that answers and one that says nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kvedge.client.vm_warnings import read_newest_warnings
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.scripted_api import Exchange, refusing, scripted_api

POD = launcher_pod_name(VirtualMachineInstance(metadata=ObjectMeta(name="web", uid="u1")))


def warning(kind: str, name: str, uid: str, message: str) -> dict[str, Any]:
    return {
        "metadata": {"name": message, "namespace": "default"},
        "involvedObject": {"kind": kind, "name": name, "uid": uid},
        "type": "Warning",
        "reason": "Failed",
        "message": message,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


EVENTS = [
    warning("Pod", POD, "p", "of-its-pod"),
    warning("VirtualMachineInstance", "web", "u1", "of-its-run"),
    warning("VirtualMachineInstance", "web", "", "of-no-run"),
    warning("VirtualMachine", "web", "v", "of-its-vm"),
]


def select(exchange: Exchange) -> None:
    """As a server selects."""
    wanted = dict(term.split("=") for term in exchange.request.query["fieldSelector"].split(","))
    name = wanted.get("involvedObject.name")
    items = [event for event in EVENTS if name in (None, event["involvedObject"]["name"])]
    exchange.answer(200, {"metadata": {"resourceVersion": "1"}, "items": items})


def client_of(url_of: Any, path: Path) -> KubeClient:
    return KubeClient.from_kubeconfig(url_of.write_kubeconfig(path / "kubeconfig"))


def test_the_server_is_asked_for_events_of_these_objects_alone(tmp_path: Path) -> None:
    with scripted_api(select) as api:
        told = read_newest_warnings(client_of(api, tmp_path), "default", "web", {"u1"})
    assert [line.rpartition(" ")[2] for line in told.splitlines()[1:]] == ["of-its-pod", "of-its-run", "of-its-vm"]
    asked = [request.query["fieldSelector"] for request in api.requests]
    # Until nothing more is expected.
    assert asked == ["type=Warning,involvedObject.name=web", f"type=Warning,involvedObject.name={POD}"] * 3


def test_a_warning_that_is_written_a_moment_later_is_waited_for(tmp_path: Path) -> None:
    def without_the_run(exchange: Exchange) -> None:
        exchange.answer(200, {"metadata": {"resourceVersion": "1"}, "items": [EVENTS[0]]})

    with scripted_api(without_the_run, without_the_run, select) as api:
        told = read_newest_warnings(client_of(api, tmp_path), "default", "web", {"u1"})
    assert "of-its-run" in told


def test_of_one_second_the_one_that_was_written_last_is_told(tmp_path: Path) -> None:
    def of_one_second(exchange: Exchange) -> None:
        events = [warning("VirtualMachineInstance", "web", "u1", message) for message in ("tenth", "ninth", "odd")]
        for event, version in zip(events, ("10", "9", "9" * 5000), strict=True):
            event["metadata"]["resourceVersion"] = version
        exchange.answer(200, {"metadata": {"resourceVersion": "1"}, "items": events})

    with scripted_api(of_one_second) as api:
        told = read_newest_warnings(client_of(api, tmp_path), "default", "web", {"u1"})
    assert told.endswith("tenth")


def test_a_guest_that_keeps_ending_is_asked_about_once(tmp_path: Path) -> None:
    with scripted_api(select) as api:
        told = read_newest_warnings(client_of(api, tmp_path), "default", "web", {f"u{number}" for number in range(50)})
    assert "of-its-pod" in told
    assert {request.query["fieldSelector"] for request in api.requests} == {"type=Warning"}


def test_what_has_no_uid_is_not_of_a_run_that_was_not_there(tmp_path: Path) -> None:
    with scripted_api(select) as api:
        told = read_newest_warnings(client_of(api, tmp_path), "default", "web", {""})
    assert "of-its-vm" in told
    assert "of-no-run" not in told
    assert len(api.requests) == 1


def test_who_may_read_no_events_is_told_nothing_of_them(tmp_path: Path) -> None:
    with scripted_api(refusing(403, "Forbidden")) as api:
        assert read_newest_warnings(client_of(api, tmp_path), "default", "web", {"u1"}) == ""
    assert len(api.requests) == 1


@pytest.mark.parametrize("answers", [0, 1], ids=["silent", "silent after the first answer"])
@pytest.mark.parametrize("runs", [None, {"u1"}], ids=["the present run", "a run"])
def test_a_server_that_says_nothing_is_not_waited_for(
    tmp_path: Path, answers: int, runs: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as long as an answer to anything else may take, which is more than a minute with its repetitions."""
    # An answer that is to come does so in time on a loaded machine, too.
    monkeypatch.setattr("kvedge.client.vm_warnings._SECONDS", 2.5 if answers else 0.5)

    def silent(exchange: Exchange) -> None:
        api.over.wait(100)

    first = refusing(404, "NotFound") if runs is None else select
    with scripted_api(*[first] * answers, silent) as api:
        begun = time.monotonic()
        told = read_newest_warnings(client_of(api, tmp_path), "default", "web", runs)
        seconds = time.monotonic() - begun
    assert ("of-its-run" in told) is (runs is not None and answers == 1)
    assert len(api.requests) == answers + 1, "nothing is asked twice"
    assert seconds < 20
