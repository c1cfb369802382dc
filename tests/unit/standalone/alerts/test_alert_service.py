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
