"""`kvedge top` prints what the metrics say, and whose node does not answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from kvedge.cli.machines import top_verb
from tests.unit.client.usage.played_metrics import PlayedMetrics


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = PlayedMetrics().session
    session.namespace = "shop"
    monkeypatch.setattr(top_verb, "open_session", lambda *_: session)
    monkeypatch.setattr(top_verb.time, "sleep", lambda _: None)


def test_the_vms_of_the_namespace_are_a_table_and_silence_is_told() -> None:
    done = CliRunner().invoke(top_verb.top, ["--sort", "name"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["NAME", "NODE", "CPU"]
    assert [line.split()[0] for line in lines[1:]] == ["db", "web"]
    assert "db (does not answer)" in lines[1]
    assert "node n2 does not answer" in done.stderr


def test_programs_get_numbers() -> None:
    done = CliRunner().invoke(top_verb.top, ["-A", "-o", "json"])
    found = {use["name"]: use for use in json.loads(done.stdout)}
    assert (found["web"]["cpus"], found["web"]["readBytesPerSecond"]) == (0.0, 0)
    assert found["db"]["answers"] is False
