"""What `kvedge status` says of snapshot schedules; what else it sees of a host is looked at on hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.appliance.host.health import Health, check_health
from tests.support.scripted_api import Exchange, scripted_api


def schedule(status: str) -> dict[str, Any]:
    ready = {
        "type": "Ready",
        "status": status,
        "reason": "SnapshotFailed",
        "message": "the last 2 in a row have failed",
    }
    return {"metadata": {"name": "hourly", "namespace": "default"}, "spec": {}, "status": {"conditions": [ready]}}


def look(directory: Path, schedules: list[dict[str, Any]] | None, own_node: str = "") -> Health:
    """Ask a server that has these schedules, or does not know the kind."""

    def answer(exchange: Exchange) -> None:
        path = exchange.request.path.partition("?")[0]
        node = {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        if path.endswith("/virtualmachinesnapshotschedules"):
            exchange.answer(200, {"items": schedules}) if schedules is not None else exchange.answer(404, {})
        elif path.endswith("/nodes/n"):
            exchange.answer(200, node)
        else:
            exchange.answer(200, {"items": [node] if path.endswith("/nodes") else []})

    with scripted_api(answer) as server:
        return check_health(server.write_kubeconfig(directory / "kubeconfig"), None, own_node)


def test_a_schedule_that_fails_is_told_and_is_no_problem_of_an_upgrade(tmp_path: Path) -> None:
    found = look(tmp_path, [schedule("False"), schedule("True")])
    text = "snapshot schedule default/hourly: SnapshotFailed: the last 2 in a row have failed"
    assert (found.alarms, found.problems) == ((text,), ())


@pytest.mark.parametrize("own_node", ["", "n"], ids=["an older API", "a node of a cluster"])
def test_where_there_are_none_nothing_is_said(tmp_path: Path, own_node: str) -> None:
    found = look(tmp_path, [schedule("False")] if own_node else None, own_node)
    assert found.alarms == ()
    assert found.nodes == 1
