# Tests: kvedge/client/alarms.py
"""`kvedge alarms` and `kvedge status`: what is raised, the rules, and their runbooks without any server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.appliance.host.health import check_health
from kvedge.cli.group import run as run_kvedge
from kvedge.resources.alarms.alarm_record import AlarmRecord, record_data
from kvedge.resources.alarms.alarm_rules import RULES
from kvedge.resources.alarms.alarm_state import Alarm, State
from tests.support.scripted_api import Exchange, scripted_api


def an_alarm(rule: str, name: str, message: str, state: State = State.FIRING) -> Alarm:
    return Alarm(rule, "v1", "Node", "", name, "u1", state, "", message, raised="2026-05-01T12:00:00Z")


ALARMS = (
    an_alarm("ClockUnsynchronized", "edge-1", "nothing keeps the clock"),
    an_alarm("NodeLost", "edge-2", "silent \x1b[31mred"),
    an_alarm("KvmLost", "edge-3", "over", State.RESOLVED),
)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """That of a server with these alarms and nothing else."""

    def answer(exchange: Exchange) -> None:
        if exchange.request.path.endswith("/configmaps/kvedge-alarms"):
            exchange.answer(200, {"metadata": {"name": "kvedge-alarms"}, "data": record_data(AlarmRecord(ALARMS))})
        else:
            exchange.answer(200, {"items": []})

    with scripted_api(answer) as server:
        yield server.write_kubeconfig(tmp_path / "kubeconfig")


class Kvedge:
    """Runs verbs, and has what they printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.errors = ""

    def run(self, *args: object, code: int = 0) -> str:
        assert run_kvedge([str(each) for each in args]) == code
        captured = self._capsys.readouterr()
        self.errors = captured.err
        return captured.out


@pytest.fixture
def kvedge(capsys: pytest.CaptureFixture[str]) -> Kvedge:
    return Kvedge(capsys)


def test_what_is_raised_is_shown_the_worst_first_and_made_harmless(kvedge: Kvedge, kubeconfig: Path) -> None:
    lines = kvedge.run("alarms", "list", "--kubeconfig", kubeconfig).splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["SEVERITY", "ALARM"],
        ["critical", "NodeLost"],
        ["info", "ClockUnsynchronized"],
    ]
    assert "\x1b" not in "".join(lines)
    assert kvedge.run("--kubeconfig", kubeconfig, "alarms").splitlines() == lines
    assert kvedge.run("alarms", "--kubeconfig", kubeconfig).splitlines() == lines
    assert "show" in kvedge.run("alarms", "--help")


def test_programs_get_them_as_json(kvedge: Kvedge, kubeconfig: Path) -> None:
    found = json.loads(kvedge.run("alarms", "list", "-o", "json", "--kubeconfig", kubeconfig))
    assert [each["rule"] for each in found] == ["NodeLost", "ClockUnsynchronized"]
    assert found[0]["remedy"] == RULES["NodeLost"].remedy


def test_a_rule_is_shown_with_what_it_is_raised_about_and_its_runbook(kvedge: Kvedge, kubeconfig: Path) -> None:
    text = kvedge.run("alarms", "show", "nodelost", "--kubeconfig", kubeconfig)
    assert "now        Node edge-2 since 2026-05-01T12:00:00Z" in text
    assert "## What to do" in text


def test_a_runbook_needs_no_server(kvedge: Kvedge) -> None:
    text = kvedge.run("alarms", "show", "KvmLost", "--offline")
    assert "# KvmLost" in text
    assert "\nnow " not in text


def test_a_rule_that_there_is_not_is_told_with_one_that_there_is(kvedge: Kvedge) -> None:
    kvedge.run("alarms", "show", "NodeLoss", "--offline", code=3)
    assert "Did you mean NodeLost?" in kvedge.errors


def test_all_rules_are_listed(kvedge: Kvedge) -> None:
    lines = kvedge.run("alarms", "rules").splitlines()[1:]
    assert [line.split()[1] for line in lines] == list(RULES)


def test_status_tells_of_what_matters_and_lets_an_upgrade_be(kubeconfig: Path) -> None:
    health = check_health(kubeconfig, None)
    assert [text.partition(":")[0] for text in health.alarms] == ["Node edge-2"]
    assert not any("edge-2" in text for text in health.problems)
