"""Looks that call the site's program, against a scripted API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvedge.kube.kube_client import KubeClient
from kvedge.standalone.alerts.alert_service import AlertService
from tests.support.scripted_api import Exchange, scripted_api
from tests.unit.standalone.alerts.test_alert_hook import program


def test_a_failing_schedule_is_told_once_and_again_when_it_is_well(tmp_path: Path) -> None:
    state: dict[str, Any] = {"status": "False"}

    def answer(exchange: Exchange) -> None:
        path = exchange.request.path.partition("?")[0]
        ready = {"type": "Ready", "status": state["status"], "reason": "BackupFailed", "message": "VM web: no room"}
        item = {"metadata": {"name": "nightly", "namespace": "shop"}, "status": {"conditions": [ready]}}
        if path.endswith("/backupruns"):
            exchange.answer(404, {})
        else:
            exchange.answer(200, {"items": [item] if path.endswith("/backupschedules") else []})

    heard = tmp_path / "heard"
    heard.touch()
    heard.chmod(0o666)
    hook = tmp_path / "alert-hook"
    with scripted_api(answer) as server:
        client = KubeClient.from_kubeconfig(server.write_kubeconfig(tmp_path / "kubeconfig"))
        service = AlertService(client, hook, "box-1")
        service.look()
        program(tmp_path, "exit 1")
        service.look()
        program(tmp_path, f"cat >> {heard}")
        service.look()
        service.look()
        state["status"] = "True"
        service.look()
        client.close()
    told = [json.loads(line) for line in heard.read_text().splitlines()]
    assert [each["state"] for each in told] == ["firing", "resolved"]
    assert {name: told[0][name] for name in ("box", "kind", "namespace", "name", "reason", "message")} == {
        "box": "box-1",
        "kind": "BackupSchedule",
        "namespace": "shop",
        "name": "nightly",
        "reason": "BackupFailed",
        "message": "VM web: no room",
    }


def test_an_alert_that_the_program_fails_on_keeps_no_other_from_being_told(tmp_path: Path) -> None:
    def item(name: str) -> dict[str, Any]:
        ready = {"type": "Ready", "status": "False", "reason": "BackupFailed", "message": "no room"}
        return {"metadata": {"name": name, "namespace": "shop"}, "status": {"conditions": [ready]}}

    names = ["a-bad", "b-good", "c-bad", "d-bad", "e-bad", "f-good"]

    def answer(exchange: Exchange) -> None:
        path = exchange.request.path.partition("?")[0]
        exchange.answer(200, {"items": [item(each) for each in names] if path.endswith("/backupschedules") else []})

    tried, heard = tmp_path / "tried", tmp_path / "heard"
    for each in (tried, heard):
        each.touch()
        each.chmod(0o666)
    with scripted_api(answer) as server:
        client = KubeClient.from_kubeconfig(server.write_kubeconfig(tmp_path / "kubeconfig"))
        script = f'read -r line; echo >> {tried}; case "$line" in *-bad*) exit 1;; esac; echo "$line" >> {heard}'
        hook = program(tmp_path, script)
        service = AlertService(client, hook, "box-1")
        service.look()
        assert [json.loads(line)["name"] for line in heard.read_text().splitlines()] == ["b-good"]
        assert len(tried.read_text()) == 5, "given up after three in a row"
        service.look()
        client.close()
    assert [json.loads(line)["name"] for line in heard.read_text().splitlines()] == ["b-good", "f-good"]
