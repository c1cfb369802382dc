"""The table of alarms as a PrometheusRule, for clusters that have the Prometheus Operator.

Called by packaging/alarms, which writes k3s/monitoring/alarm-rules.yaml. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.alarms.alarm_rules import RULES, Rule, Severity
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SYSTEM_NAMESPACE

_HEALTH: Final = {Severity.CRITICAL: "critical", Severity.WARNING: "warning", Severity.INFO: "none"}


def prometheus_rule() -> JsonObject:
    """Those of the rules that a series tells of."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "kvedge-alarms",
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "kvedge"},
        },
        "spec": {
            "groups": [{"name": "kvedge.alarms", "rules": [_alert(rule) for rule in RULES.values() if rule.query]}]
        },
    }


def _alert(rule: Rule) -> JsonObject:
    alert: JsonObject = {"alert": rule.name, "expr": rule.query}
    if rule.hold:
        alert["for"] = f"{rule.hold:g}s"
    labels = {"severity": str(rule.severity), "operator_health_impact": _HEALTH[rule.severity]}
    return alert | {
        # As KubeVirt's own alerts have it.
        "labels": labels | {"kubernetes_operator_part_of": "kubevirt"},
        "annotations": {
            "summary": rule.summary,
            "description": f"{rule.looks_at}; {rule.remedy}",
            "runbook": f"kvedge alarms show {rule.name}",
        },
    }
