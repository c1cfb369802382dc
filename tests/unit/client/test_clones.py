# Tests: kvedge/cli/machines/clone_verb.py
"""How a user clones a VM, and sees it through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.cli import group
from kvedge.cli.exits import Exit
from kvedge.client.clones import describe_clone
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.protection.clones import VirtualMachineClone
from tests.support.scripted_api import Exchange, ScriptedApi, scripted_api

VM = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine"}
DONE = {"phase": "Succeeded", "targetName": "twin"}
WAITING = {
    "phase": "SnapshotInProgress",
    "conditions": [
        {"type": "Progressing", "status": "True", "reason": "Still processing", "message": "snapshot x: Source runs"},
        {"type": "Ready", "status": "False", "reason": "Still processing"},
    ],
}
PENDING = {"conditions": [{"type": "Ready", "status": "False", "reason": "Source doesnt exist: VM a/b"}]}
FAILED = {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False", "reason": "snapshot x failed"}]}


class Api:
    """A server with the VM `web` and a snapshot of it; a clone's status is the next of its list."""

    def __init__(self) -> None:
        self.statuses: list[JsonObject] = [DONE]
        self.made: list[JsonObject] = []

    def answer(self, exchange: Exchange) -> None:
        request = exchange.request
        head, _, name = request.path.partition("?")[0].rpartition("/")
        if request.method == "POST":
            made = json.loads(request.body)
            made["spec"].setdefault("target", {**VM, "name": "clone-web-abcde"})
            self.made.append(made)
            exchange.answer(201, made)
        elif head.endswith("/virtualmachines"):
            exchange.answer(200 if name == "web" else 404, {"metadata": {"name": name}, "reason": "NotFound"})
        elif name == "virtualmachinesnapshots":
            spec = {"source": {**VM, "name": "web"}}
            exchange.answer(200, {"items": [{"metadata": {"name": "before"}, "spec": spec}], "metadata": {}})
        else:
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            exchange.answer(200, {"metadata": {"name": name, "namespace": "default"}, "spec": {}, "status": status})


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
        code = group.run(["clone", *arguments, "--kubeconfig", str(kubeconfig)])
        told = capsys.readouterr()
        return code, told.out + told.err

    return call


def test_a_clone_is_asked_for_and_waited_for(run: Any, api: Api) -> None:
    api.statuses = [{}, WAITING, DONE]
    code, text = run("web", "twin", "--wait")
    assert code == 0
    assert text.splitlines()[-1] == "VM twin is there: `kvedge start twin` starts it"
    assert api.made[0]["spec"] == {"source": {**VM, "name": "web"}, "target": {**VM, "name": "twin"}}
    assert api.made[0]["metadata"]["name"].startswith("twin-20")


def test_a_target_that_nobody_names_is_named_by_the_server(run: Any, api: Api) -> None:
    code, text = run("web")
    assert (code, text.rstrip().endswith("its VM is clone-web-abcde")) == (0, True)


def test_a_snapshot_is_a_source_without_its_vm(run: Any, api: Api) -> None:
    assert run("web", "twin", "--from-snapshot", "before")[0] == 0
    assert api.made[0]["spec"]["source"]["kind"] == "VirtualMachineSnapshot"
    code, text = run("web", "twin", "--from-snapshot", "befor")
    assert code == Exit.NOT_FOUND
    assert "before" in text


@pytest.mark.parametrize(
    ("arguments", "exit_code"), [(("nobody", "twin"), Exit.NOT_FOUND), (("web", "web"), Exit.FAILED)]
)
def test_what_cannot_become_a_clone_is_refused_at_once(
    run: Any, api: Api, arguments: tuple[str, ...], exit_code: Exit
) -> None:
    assert run(*arguments)[0] == exit_code
    assert api.made == []


def test_one_that_fails_says_why(run: Any, api: Api) -> None:
    api.statuses = [FAILED]
    code, text = run("web", "twin", "--wait")
    assert code == Exit.FAILED
    assert "failed: snapshot x failed" in text


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "not seen by the controller yet"),
        (WAITING, "SnapshotInProgress: snapshot x: Source runs"),
        (PENDING, "Source doesnt exist: VM a/b"),
        (DONE, ""),
    ],
)
def test_a_clone_says_what_it_waits_for(status: JsonObject, text: str) -> None:
    assert describe_clone(decode(VirtualMachineClone, {"metadata": {"name": "c"}, "status": status})) == text
