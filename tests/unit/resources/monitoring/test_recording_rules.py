"""KubeVirt's recording rules, of series that there are."""

from __future__ import annotations

import pytest

from kvedge.resources.alarms.prometheus_rules import prometheus_rule
from kvedge.resources.monitoring.recording_rules import DEPRECATED, RULES, recording_rule
from tests.unit.resources.monitoring.known_metrics import KNOWN, names_in


@pytest.mark.parametrize("name", RULES | DEPRECATED)
def test_a_rule_is_made_of_series_that_there_are(name: str) -> None:
    names = names_in((RULES | DEPRECATED)[name])
    assert names
    assert names - KNOWN == set()
    assert name not in names


def test_an_old_name_is_another_one_for_a_rule() -> None:
    assert set(DEPRECATED.values()) <= RULES.keys()


def test_the_document_has_all_of_them() -> None:
    (group,) = recording_rule()["spec"]["groups"]
    assert [rule["record"] for rule in group["rules"]] == [*RULES, *DEPRECATED]


def test_alarms_ask_for_series_that_there_are() -> None:
    (group,) = prometheus_rule()["spec"]["groups"]
    assert set().union(*(names_in(rule["expr"]) for rule in group["rules"])) - KNOWN == set()


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (node, x) (rate(a_total{b="c"}[5m])) / on (node) group_left () d == bool 0', {"a_total", "d"}),
        ("vmi:a:sum < 0.05 and on (node) (e > 5 or f:g:rate5m > 1)", {"vmi:a:sum", "e", "f:g:rate5m"}),
        ("node_filesystem_size_bytes > 0 unless absent(h)", {"h"}),
    ],
)
def test_names_are_found_in_expressions(expression: str, names: set[str]) -> None:
    assert names_in(expression) == names
