"""What the KubeVirt object tells of launchers of other releases."""

from __future__ import annotations

import pytest

from kvedge.controller.guest_moves import Guest
from kvedge.controller.workloads.update_plan import plan_updates
from kvedge.controller.workloads.update_report import report_updates
from kvedge.controller.workloads.update_view import Evictions, Rules
from kvedge.resources.configuration.configuration import WorkloadUpdates
from tests.support.values import replace
from tests.unit.controller.workloads.test_update_plan import (
    CANNOT,
    MOVES,
    NEW,
    NOW,
    OLD,
    RULES,
    a_guest,
    a_migration,
    failures,
)


def told(*guests: Guest, rules: Rules = RULES) -> tuple[str, str, str]:
    found = report_updates(plan_updates(guests, rules, Evictions(), NOW), rules)
    assert found.type == "LaunchersUpToDate"
    return found.status, found.reason, found.message


def test_all_up_to_date() -> None:
    assert told(a_guest(version=NEW)) == ("True", "UpToDate", f"All launchers run {NEW}.")


@pytest.mark.parametrize(
    ("guest", "rules", "reason", "words"),
    [
        pytest.param(
            a_guest(), replace(RULES, updates=WorkloadUpdates()), "NoUpdateMethod", "default/web", id="no method"
        ),
        pytest.param(
            a_guest(),
            replace(RULES, versions={"node-1": NEW, "node-2": OLD}),
            "ControlPlaneNotReady",
            "upgrade node-2",
            id="another version",
        ),
        pytest.param(
            a_guest(), replace(RULES, is_deployed=False), "ControlPlaneNotReady", "Deployed", id="not deployed"
        ),
        pytest.param(
            a_guest(),
            replace(MOVES, nodes=1, versions={"node-1": NEW}),
            "NoOtherNode",
            "LiveMigrate does nothing here",
            id="one node",
        ),
        pytest.param(a_guest("web", CANNOT), MOVES, "CannotMove", "PVC data is not shared", id="cannot move"),
        pytest.param(
            a_guest(migrations=[a_migration("Failed", 5)]), RULES, "UpdatesWait", "default/web", id="failed once"
        ),
        pytest.param(a_guest(), RULES, "Updating", "1 VMI runs a launcher of another release", id="is moved"),
        pytest.param(a_guest("web", CANNOT), RULES, "Updating", "evicted (default/web)", id="is evicted"),
    ],
)
def test_each_reason_is_told_with_what_to_do(guest: Guest, rules: Rules, reason: str, words: str) -> None:
    status, found, message = told(guest, rules=rules)
    assert (status, found) == ("False", reason)
    assert words in message


def test_updates_that_stopped_by_themselves_say_why_and_until_when() -> None:
    guests = failures(100, 200, 300)
    _, reason, message = told(*guests)
    assert reason == "UpdatesFailed"
    assert "the last migrations of 3 VMIs have failed, at last that of default/f100" in message
    assert "before 2026-01-02T03:08:20Z" in message


def test_many_are_counted_and_few_named() -> None:
    rules = replace(RULES, updates=WorkloadUpdates())
    _, _, message = told(*(a_guest(f"vm-{number}") for number in range(1000)), rules=rules)
    assert message.startswith("1000 VMIs run launchers")
    assert "995 more" in message
    assert len(message) < 400
