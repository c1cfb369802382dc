# Tests: kvedge/cli/machines/schedule_verbs.py
"""How a user has snapshots taken again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.cli import group
from kvedge.cli.exits import Exit
from kvedge.resources.codec import JsonObject
from tests.support.scripted_api import Exchange, ScriptedApi, scripted_api

WEB = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}


def schedule(name: str, vm: str = "web", reason: str = "") -> JsonObject:
    state = {"type": "Ready", "status": "False" if reason else "True", "reason": reason, "message": "m"}
    status = {"nextScheduleTime": "2026-01-01T01:00:00Z", "conditions": [state]}
    spec = {"source": {**WEB, "name": vm}, "every": "1h", "keep": 24}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}


class Api:
    """A server with the VM `web` and schedules."""

    def __init__(self) -> None:
        self.schedules = [schedule("web-1h"), schedule("web-5m", reason="Late"), schedule("db-1h", vm="db")]
        self.written: list[tuple[str, JsonObject]] = []

    def answer(self, exchange: Exchange) -> None:
        request = exchange.request
        head, _, name = request.path.partition("?")[0].rpartition("/")
        known = {each["metadata"]["name"]: each for each in self.schedules}
        if request.method in ("POST", "PATCH"):
            made = json.loads(request.body)
            self.written.append((request.method, made))
            name = made.get("metadata", {}).get("name", name)
            if request.method == "POST" and name in known:
                exchange.answer(409, {"kind": "Status", "reason": "AlreadyExists"})
            else:
                exchange.answer(200, known.get(name, made))
        elif request.method == "DELETE":
            self.written.append(("DELETE", {"name": name}))
            exchange.answer(200, {"kind": "Status", "status": "Success"})
        elif head.endswith("/virtualmachines"):
            exchange.answer(200 if name == "web" else 404, {"metadata": {"name": name}, "reason": "NotFound"})
        else:
            exchange.answer(200, {"items": self.schedules, "metadata": {}})


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def server(api: Api) -> Iterator[ScriptedApi]:
    with scripted_api(api.answer) as found:
        yield found


@pytest.fixture
def run(server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")

    def call(*arguments: str) -> tuple[int, str]:
        code = group.run(["snapshot", *arguments, "--kubeconfig", str(kubeconfig)])
        told = capsys.readouterr()
        return code, told.out + told.err

    return call


def test_a_schedule_is_made_with_a_name_of_its_vm_and_time(run: Any, api: Api) -> None:
    code, text = run("schedule", "web", "--every", "2h", "--keep", "3")
    assert (code, text) == (0, "schedule web-2h: a snapshot of VM web every 2h, 3 are kept\n")
    ((verb, made),) = api.written
    assert (verb, made["metadata"]["name"]) == ("POST", "web-2h")
    assert made["spec"] == {"source": WEB, "every": "2h", "keep": 3}


def test_a_schedule_that_is_there_gets_the_new_times(run: Any, api: Api) -> None:
    assert run("schedule", "web", "--every", "1h", "--keep", "5")[0] == 0
    assert [verb for verb, _ in api.written] == ["POST", "PATCH"]
    assert api.written[1][1] == {"spec": {"source": WEB, "every": "1h", "keep": 5, "suspend": None}}


def test_schedules_are_shown_with_what_is_wrong(run: Any) -> None:
    code, text = run("schedules", "web")
    head, first, second = text.splitlines()
    assert code == 0
    assert head.split()[:4] == ["NAME", "VM", "EVERY", "KEEP"]
    assert first.split() == ["web-1h", "web", "1h", "24", "-", "2026-01-01T01:00:00Z", "-"]
    assert second.endswith("Late: m")


@pytest.mark.parametrize(("names", "gone"), [((), ["web-1h", "web-5m"]), (("web-5m",), ["web-5m"])])
def test_schedules_of_a_vm_are_deleted(run: Any, api: Api, names: tuple[str, ...], gone: list[str]) -> None:
    assert run("unschedule", "web", *names)[0] == 0
    assert [made["name"] for _, made in api.written] == gone


@pytest.mark.parametrize(
    "arguments",
    [("unschedule", "web", "db-1h"), ("unschedule", "nobody"), ("schedule", "nobody", "--every", "1h")],
)
def test_what_is_not_there_is_said(run: Any, api: Api, arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == Exit.NOT_FOUND
    assert api.written == []
