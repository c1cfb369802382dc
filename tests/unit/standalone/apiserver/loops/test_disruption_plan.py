"""What a PodDisruptionBudget allows, from its Pods, its spec and what was granted before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvedge.standalone.apiserver.loops.disruption_plan import (
    PodFacts,
    chooses,
    grant_eviction,
    is_free,
    is_spared,
    plan_status,
    pod_facts,
)
from kvedge.standalone.apiserver.wire.api_errors import Forbidden, TooManyRequests

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STAMP = "2026-01-01T12:00:00Z"


def budget(status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b", "generation": 3}, "spec": spec, "status": status or {}}


def pods(ready: int, unready: int = 0) -> list[PodFacts]:
    return [PodFacts(f"p{number}", "Running", number < ready, False) for number in range(ready + unready)]


def counts(spec: dict[str, Any], present: list[PodFacts]) -> tuple[int, int, int, int]:
    status, _ = plan_status(budget(**spec), present, NOW)
    return status["disruptionsAllowed"], status["currentHealthy"], status["desiredHealthy"], status["expectedPods"]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"minAvailable": 2}, (1, 3, 2, 4)),
        ({"minAvailable": 3}, (0, 3, 3, 4)),
        ({"minAvailable": 9}, (0, 3, 9, 4)),
        ({"minAvailable": "26%"}, (1, 3, 2, 4)),
        ({"minAvailable": "100%"}, (0, 3, 4, 4)),
        ({"minAvailable": "0" * 10_000 + "26%"}, (1, 3, 2, 4)),
        ({"minAvailable": "000%"}, (3, 3, 0, 4)),
        ({"maxUnavailable": 1}, (0, 3, 3, 4)),
        ({"maxUnavailable": 2}, (1, 3, 2, 4)),
        ({"maxUnavailable": 9}, (3, 3, 0, 4)),
        ({"maxUnavailable": "1%"}, (0, 3, 3, 4)),
        ({"maxUnavailable": "51%"}, (2, 3, 1, 4)),
        ({}, (0, 3, 0, 0)),
    ],
)
def test_three_healthy_pods_of_four_are_counted(spec: dict[str, Any], found: tuple[int, int, int, int]) -> None:
    assert counts(spec, pods(3, 1)) == found


def test_without_pods_nothing_is_allowed() -> None:
    assert counts({"maxUnavailable": 1}, []) == (0, 0, 0, 0)


def test_pods_that_end_or_have_ended_are_not_healthy() -> None:
    ending = PodFacts("ending", "Running", True, True)
    over = PodFacts("over", "Succeeded", True, False)
    assert counts({"minAvailable": 1}, [*pods(2), ending, over]) == (1, 2, 1, 3)


def test_a_pod_whose_eviction_was_granted_does_not_count_for_two_minutes() -> None:
    before = {"disruptedPods": {"p0": STAMP, "gone": STAMP}}
    status, again = plan_status(budget(before, minAvailable=1), pods(2), NOW + timedelta(seconds=119))
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (0, 1)
    assert status["disruptedPods"] == {"p0": STAMP}
    assert again == NOW + timedelta(seconds=120)
    status, again = plan_status(budget(before, minAvailable=1), pods(2), NOW + timedelta(seconds=120))
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (1, 2)
    assert "disruptedPods" not in status
    assert again is None


@pytest.mark.parametrize("moment", ["", "soon", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_any_moment_that_a_client_wrote_is_survived(moment: str) -> None:
    status, again = plan_status(budget({"disruptedPods": {"p0": moment}}, minAvailable=1), pods(2), NOW)
    assert status["expectedPods"] == 2
    assert again is None or again <= NOW + timedelta(minutes=2)


def test_the_condition_keeps_its_time_while_it_says_the_same() -> None:
    first, _ = plan_status(budget(minAvailable=1), pods(2), NOW)
    assert first["conditions"] == [
        {
            "type": "DisruptionAllowed",
            "status": "True",
            "observedGeneration": 3,
            "lastTransitionTime": STAMP,
            "reason": "SufficientPods",
            "message": "",
        }
    ]
    other = {"type": "Other", "status": "True"}
    before = {"conditions": [*first["conditions"], other]}
    later, _ = plan_status(budget(before, minAvailable=1), pods(3), NOW + timedelta(hours=1))
    assert later["conditions"] == [other, *first["conditions"]]
    changed, _ = plan_status(budget(before, minAvailable=1), pods(1), NOW + timedelta(hours=1))
    assert changed["conditions"][1]["lastTransitionTime"] == "2026-01-01T13:00:00Z"
    assert changed["conditions"][1]["reason"] == "InsufficientPods"


def test_what_is_granted_is_taken_and_noted() -> None:
    status, _ = plan_status(budget(minAvailable=1), pods(2), NOW)
    after = grant_eviction(budget(status, minAvailable=1), "p0", NOW)["status"]
    assert (after["disruptionsAllowed"], after["disruptedPods"]) == (0, {"p0": STAMP})
    assert after["conditions"][0]["status"] == "False"
    with pytest.raises(TooManyRequests) as refused:
        grant_eviction(budget(after, minAvailable=1), "p1", NOW)
    assert refused.value.causes == [
        {"reason": "DisruptionBudget", "message": "The disruption budget b does not allow evicting pods currently"}
    ]


def test_a_status_that_is_older_than_its_spec_decides_nothing() -> None:
    with pytest.raises(TooManyRequests) as refused:
        grant_eviction(budget({"observedGeneration": 2, "disruptionsAllowed": 5}), "p0", NOW)
    assert refused.value.retry_after_seconds == 10
    assert "still being processed" in refused.value.causes[0]["message"]


def test_evictions_that_nobody_confirms_end_somewhere() -> None:
    many = {f"p{number}": STAMP for number in range(2001)}
    with pytest.raises(Forbidden):
        grant_eviction(budget({"observedGeneration": 3, "disruptionsAllowed": 5, "disruptedPods": many}), "p", NOW)


def test_the_facts_of_a_pod() -> None:
    ready = {"type": "Ready", "status": "True"}
    assert pod_facts({"metadata": {"name": "p"}}) == PodFacts("p", "", False, False)
    pod = {
        "metadata": {"name": "p", "deletionTimestamp": STAMP},
        "status": {"phase": "Running", "conditions": [ready]},
    }
    assert pod_facts(pod) == PodFacts("p", "Running", True, True)
    assert is_free(pod_facts(pod))
    assert not is_free(PodFacts("p", "Running", True, False))
    assert is_free(PodFacts("p", "Pending", False, False))


def test_an_unready_pod_is_spared_while_enough_are_healthy_and_some_are_wanted() -> None:
    sick, well = PodFacts("p", "Running", False, False), PodFacts("p", "Running", True, False)
    assert is_spared(budget({"currentHealthy": 2, "desiredHealthy": 2}), sick)
    assert not is_spared(budget({"currentHealthy": 1, "desiredHealthy": 2}), sick)
    assert not is_spared(budget({"currentHealthy": 1, "desiredHealthy": 0}), sick)
    assert is_spared(budget(unhealthyPodEvictionPolicy="AlwaysAllow"), sick)
    assert not is_spared(budget({"currentHealthy": 2, "desiredHealthy": 2}), well)


def test_a_budget_without_a_selector_chooses_nobody() -> None:
    assert not chooses({"spec": {}}, {"a": "b"})
    assert chooses({"spec": {"selector": {}}}, None)
    assert chooses({"spec": {"selector": {"matchLabels": {"a": "b"}}}}, {"a": "b"})
    assert not chooses({"spec": {"selector": {"matchLabels": {"a": "b"}}}}, {"a": "c"})
