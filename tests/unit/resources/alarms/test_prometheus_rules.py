"""The table as Prometheus gets it."""

from __future__ import annotations

import re

from kvedge.resources.alarms.alarm_rules import RULES
from kvedge.resources.alarms.prometheus_rules import prometheus_rule


def alerts() -> dict[str, dict[str, object]]:
    [group] = prometheus_rule()["spec"]["groups"]
    return {each["alert"]: each for each in group["rules"]}


def test_each_rule_that_a_series_tells_of_is_there_with_its_words() -> None:
    found = alerts()
    assert set(found) == {rule.name for rule in RULES.values() if rule.query}
    assert len(found) >= 8
    assert found["HostDiskFilling"]["for"] == "600s"
    assert "for" not in found["HostDiskFull"]
    assert found["NodeLost"]["labels"] == {
        "severity": "critical",
        "operator_health_impact": "critical",
        "kubernetes_operator_part_of": "kubevirt",
    }


def test_the_bounds_are_those_of_the_table() -> None:
    for rule in RULES.values():
        compared = re.search(r"(>=|<=|==) ([0-9.]+)$", rule.query)
        # What is simply so or not is asked for by the series' own value.
        if compared is not None and compared[1] != "==":
            assert float(compared[2]) == rule.limit, rule.name
        assert bool(compared) == bool(rule.query), rule.name
