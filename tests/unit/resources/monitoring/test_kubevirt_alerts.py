"""KubeVirt's alerts, of series that there are, each with a remedy."""

from __future__ import annotations

import re

import pytest

from kvedge.resources.alarms.alarm_rules import RULES as ALARMS
from kvedge.resources.monitoring.kubevirt_alerts import ALERTS, Alert, kubevirt_alerts
from tests.unit.resources.monitoring.known_metrics import KNOWN, names_in


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_asks_for_series_that_there_are_and_says_what_to_do(alert: Alert) -> None:
    names = names_in(alert.expression)
    assert names
    assert names - KNOWN == set()
    assert alert.summary
    assert alert.remedy
    assert re.fullmatch(r"\d+m", alert.hold)
    assert alert.severity in ("critical", "warning", "info")


def test_a_name_is_one_alert_of_a_severity() -> None:
    names = [(alert.name, alert.severity) for alert in ALERTS]
    assert len(set(names)) == len(names)
    assert not {name for name, _ in names} & ALARMS.keys()


def test_the_document_has_all_of_them_with_kubevirts_labels() -> None:
    (group,) = kubevirt_alerts()["spec"]["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [alert.name for alert in ALERTS]
    for rule in group["rules"]:
        assert rule["labels"].keys() == {"severity", "operator_health_impact", "kubernetes_operator_part_of"}
