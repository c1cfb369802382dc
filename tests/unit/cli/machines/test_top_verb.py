"""`kvedge top` prints what the metrics say, and whose node does not answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from kvedge.cli.machines import top_verb
from kvedge.resources.usage.guest_history import CPUS, GuestHistory
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


def test_one_vm_alone_is_shown_when_it_is_named() -> None:
    done = CliRunner().invoke(top_verb.top, ["web"])
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["web"]


HISTORY = GuestHistory(span="day", step=300, end=86400, series={CPUS: [None, 0.5]})


@pytest.mark.parametrize(
    ("history", "said", "told"),
    [
        pytest.param(HISTORY, "CPU   50 %   50 %   50 %    █", "5 minutes a bar", id="known"),
        pytest.param(GuestHistory(), "OLDEST TO NEWEST", "Nothing is kept of it yet.", id="nothing known"),
    ],
)
def test_what_a_vm_has_used_is_drawn(
    history: GuestHistory, said: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvedge.client.usage.usage_history.read_history", lambda *_: history)
    done = CliRunner().invoke(top_verb.top, ["web", "--history", "day"])
    assert said in done.stdout
    assert told in done.stderr


def test_programs_get_what_a_vm_has_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr("kvedge.client.usage.usage_history.read_history", lambda *of: asked.append(of) or HISTORY)
    done = CliRunner().invoke(top_verb.top, ["web", "--history", "day", "-o", "json"])
    assert json.loads(done.stdout)["series"][CPUS] == [None, 0.5]
    assert asked[0][1:] == ("shop", "web", "day")


def test_a_history_is_of_one_vm() -> None:
    done = CliRunner().invoke(top_verb.top, ["--history", "day"])
    assert "--history: name the VM: kvedge top VM --history day" in f"{done.output}{done.exception}"


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        (["-A"], "--all-namespaces"),
        (["--sort", "cpu"], "--sort"),
        (["--interval", "2"], "--interval"),
        (["--watch"], "--watch"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_history_takes_no_flags_of_looks(given: list[str], flag: str) -> None:
    done = CliRunner().invoke(top_verb.top, ["web", "--history", "day", *given])
    assert done.exit_code != 0
    assert f"--history and {flag} exclude each other" in f"{done.output}{done.exception}"
