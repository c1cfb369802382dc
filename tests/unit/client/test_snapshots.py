# Tests: kvedge/cli/machines/snapshot_verbs.py
"""How a user takes snapshots, sees them through, and puts them back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.cli import group
from kvedge.cli.exits import Exit
from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.session import connect
from kvedge.client.snapshots import describe_restore, describe_snapshot, make_cells, take_snapshot
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from tests.support.scripted_api import Exchange, ScriptedApi, scripted_api

SOURCE = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
READY = {
    "phase": "Succeeded",
    "readyToUse": True,
    "creationTime": "2026-01-01T00:00:05Z",
    "snapshotVolumes": {"includedVolumes": ["root", "data"]},
}
WAITING = {
    "phase": "InProgress",
    "conditions": [
        {"type": "Progressing", "status": "True", "reason": "Source locked", "message": "vmsnapshot-x: 12.5%"}
    ],
}
FAILED = {"phase": "Failed", "readyToUse": False, "error": {"message": "snapshot deadline exceeded: no disk"}}
TAKEN_BACK = {"conditions": [{"type": "Failure", "status": "True", "reason": "copy failed: too small"}]}


def snapshot(name: str, status: JsonObject, vm: str = "web") -> JsonObject:
    made = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": f"2026-01-01T00:00:0{len(name)}Z"}
    return {"metadata": made, "spec": {"source": {**SOURCE, "name": vm}}, "status": status}


class Api:
    """A server with snapshots; an object's status is the next of its list, and the last one stays."""

    def __init__(self) -> None:
        self.snapshots = [snapshot("late2", WAITING), snapshot("old", READY), snapshot("other", READY, vm="db")]
        self.statuses: list[JsonObject] = [READY]
        self.made: list[JsonObject] = []
        self.deleted: list[str] = []
        self.phase = ""

    def answer(self, exchange: Exchange) -> None:
        request = exchange.request
        head, _, name = request.path.partition("?")[0].rpartition("/")
        if request.method == "POST":
            self.made.append(json.loads(request.body))
            exchange.answer(201, self.made[-1])
        elif request.method == "DELETE":
            self.deleted.append(name)
            exchange.answer(200, {"kind": "Status", "status": "Success"})
        elif head.endswith("/virtualmachineinstances"):
            made = {"metadata": {"name": name}, "spec": {}, "status": {"phase": self.phase}, "reason": "NotFound"}
            exchange.answer(200 if self.phase else 404, made)
        elif head.endswith("/virtualmachines"):
            found = name == "web"
            exchange.answer(200 if found else 404, {"metadata": {"name": name}, "spec": {}, "reason": "NotFound"})
        elif name == "virtualmachinesnapshots":
            exchange.answer(200, {"items": self.snapshots, "metadata": {}})
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
        code = group.run(["snapshot", *arguments, "--kubeconfig", str(kubeconfig)])
        told = capsys.readouterr()
        return code, told.out + told.err

    return call


def test_a_snapshot_is_asked_for_and_waited_for(run: Any, api: Api) -> None:
    api.statuses = [{}, WAITING, READY]
    code, text = run("create", "web", "before", "--retain", "--failure-deadline", "1h", "--wait")
    assert (code, text) == (0, "snapshot before of VM web created\nsnapshot before is ready\n")
    assert api.made[0]["spec"] == {"source": SOURCE, "deletionPolicy": "Retain", "failureDeadline": "1h"}


def test_memory_is_asked_for_and_its_class(run: Any, api: Api) -> None:
    assert run("create", "web", "before", "--memory", "--memory-class", "fast")[0] == 0
    asked = {"kvedge.io/snapshot-memory": "true", "kvedge.io/snapshot-memory-class": "fast"}
    assert api.made[0]["metadata"]["annotations"] == asked
    code, text = run("create", "web", "other", "--memory-class", "fast")
    assert code == Exit.USAGE
    assert "--memory-class: the snapshot has no memory" in text


def test_memory_can_be_left_out_of_a_restore(run: Any, api: Api) -> None:
    assert run("restore", "web", "old", "--without-memory")[0] == 0
    assert api.made[0]["metadata"]["annotations"] == {"kvedge.io/restore-memory": "false"}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"status": {"indications": ["Online", "Memory"], "phase": "Succeeded"}}, "yes"),
        ({"metadata": {"annotations": {"kvedge.io/snapshot-memory": "true"}}}, "wanted"),
        ({}, "no"),
    ],
)
def test_the_list_tells_of_memory(document: Any, told: str) -> None:
    found = decode(VirtualMachineSnapshot, {"metadata": {"name": "a"}, **document})
    assert make_cells(found, with_namespace=False)[-2] == told


@pytest.mark.parametrize("phase", ["Running", "Succeeded", ""])
def test_a_vm_that_runs_need_not_be_stopped(run: Any, api: Api, phase: str) -> None:
    api.phase = phase
    assert run("create", "web", "before") == (0, "snapshot before of VM web created\n")


def test_one_without_a_name_is_called_by_its_time(run: Any, api: Api) -> None:
    assert run("create", "web")[0] == 0
    assert api.made[0]["metadata"]["name"].startswith("web-20")


def test_a_snapshot_of_no_vm_is_refused_at_once(run: Any, api: Api) -> None:
    code, _ = run("create", "nobody")
    assert code == Exit.NOT_FOUND
    assert api.made == []


def test_one_that_fails_says_why(run: Any, api: Api) -> None:
    api.statuses = [FAILED]
    code, text = run("create", "web", "before", "--wait")
    assert code == Exit.FAILED
    assert "snapshot before failed: snapshot deadline exceeded: no disk" in text


def test_what_takes_too_long_says_what_it_waits_for(run: Any, api: Api) -> None:
    api.statuses = [WAITING]
    code, text = run("create", "web", "before", "--wait", "--timeout", "0")
    assert code == Exit.TIMED_OUT
    assert "to be ready: Source locked: vmsnapshot-x: 12.5%" in text


def test_snapshots_of_a_vm_are_listed_the_oldest_first(run: Any) -> None:
    code, text = run("list", "web")
    head, first, second = text.splitlines()
    assert code == 0
    assert head.split()[:4] == ["NAME", "VM", "PHASE", "READY"]
    assert first.split() == ["old", "web", "Succeeded", "yes", "2026-01-01T00:00:05Z", "root,data", "no", "-"]
    assert second.split()[:4] == ["late2", "web", "InProgress", "no"]
    assert second.endswith("Source locked: vmsnapshot-x: 12.5%")
    assert run("list", "-o", "name")[1].count("virtualmachinesnapshot/") == 3


def test_a_snapshot_is_put_back_into_its_vm(run: Any, api: Api) -> None:
    api.statuses = [{}, {"complete": True}]
    code, text = run("restore", "web", "old", "--stop", "--wait")
    assert code == 0
    assert text.endswith("VM web has the disks of snapshot old\n")
    assert api.made[0]["spec"] == {
        "target": SOURCE,
        "virtualMachineSnapshotName": "old",
        "targetReadinessPolicy": "StopTarget",
    }


def test_a_snapshot_becomes_a_new_vm(run: Any, api: Api) -> None:
    assert run("restore", "web", "old", "--into", "twin")[0] == 0
    assert api.made[0]["spec"]["target"]["name"] == "twin"
    assert run("restore", "web", "old", "--into", "twin", "--stop")[0] == Exit.USAGE


def test_a_restore_that_fails_says_why(run: Any, api: Api) -> None:
    api.statuses = [TAKEN_BACK]
    code, text = run("restore", "web", "old", "--wait")
    assert code == Exit.FAILED
    assert "failed: copy failed: too small" in text


@pytest.mark.parametrize("verb", [("restore", "web", "other"), ("delete", "web", "other")])
def test_snapshots_of_other_vms_are_left_alone(run: Any, api: Api, verb: tuple[str, ...]) -> None:
    code, text = run(*verb)
    assert code == Exit.NOT_FOUND
    assert 'snapshot "other" of VM web not found.' in text
    assert (api.made, api.deleted) == ([], [])


def test_snapshots_are_deleted(run: Any, api: Api) -> None:
    assert run("delete", "web", "old", "late2") == (0, "snapshot old deleted\nsnapshot late2 deleted\n")
    assert api.deleted == ["old", "late2"]


def test_what_has_ended_well_has_nothing_to_tell() -> None:
    assert describe_snapshot(decode(VirtualMachineSnapshot, snapshot("x", READY))) == ""
    assert describe_snapshot(decode(VirtualMachineSnapshot, snapshot("x", {}))) == "not seen by the controller yet"
    done = {"metadata": {"name": "x"}, "spec": {}, "status": {"complete": True}}
    assert describe_restore(decode(VirtualMachineRestore, done)) == ""


@pytest.mark.parametrize(
    ("copies", "annotations"), [(True, {"kvedge.io/snapshot-method": "claim-copies"}), (False, {})]
)
def test_a_snapshot_that_is_to_be_handed_out_is_made_of_claims(
    tmp_path: Path, copies: bool, annotations: dict[str, str]
) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.answer(200, json.loads(exchange.request.body or b'{"metadata": {"name": "web"}}'))

    with scripted_api(answer) as api:
        session = connect(load_kubeconfigs((api.write_kubeconfig(tmp_path / "kubeconfig"),), None))
        made = take_snapshot(session, "web", "now", copies=copies)
        session.client.close()
    assert made.metadata.annotations == annotations
