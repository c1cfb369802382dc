"""Alarms as their readers see them.

Called by `kvedge alarms` and `kvedge status`. Reads one ConfigMap; functions that render are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kvedge.client.harmless_text import harmless
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.alarms.alarm_names import ALARMS_CONFIG
from kvedge.resources.alarms.alarm_record import AlarmRecord, read_record
from kvedge.resources.alarms.alarm_rules import RULES, Rule
from kvedge.resources.alarms.alarm_state import Alarm
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.core import ConfigMap

HEADER: Final = ["SEVERITY", "ALARM", "ABOUT", "SINCE", "MESSAGE"]
RULE_HEADER: Final = ["SEVERITY", "ALARM", "WHEN"]


def fetch_alarms(client: KubeClient) -> AlarmRecord:
    """What the controller has written down; nothing where it never has.

    Raises:
        KubeError: when the server refuses, or is not there.
    """
    try:
        return read_record(client.get(ConfigMap, SYSTEM_NAMESPACE, ALARMS_CONFIG))
    except NotFound:
        return AlarmRecord()


def alarm_rows(alarms: Iterable[Alarm]) -> list[list[str]]:
    """One row for each; messages may quote what a guest or a server said."""
    return [
        [str(each.severity), each.rule, str(each.target), each.raised, harmless(each.message.encode())]
        for each in alarms
    ]


def rule_rows() -> list[list[str]]:
    """One row for each rule of the table."""
    return [[str(rule.severity), rule.name, rule.summary] for rule in RULES.values()]


def explain_rule(rule: Rule, alarms: Sequence[Alarm]) -> list[str]:
    """What a rule looks at, and what it is raised about now."""
    bound = "from" if rule.clear < rule.limit else "at or below"
    lines = [f"severity   {rule.severity}", f"looks at   {rule.looks_at}"]
    lines.append(f"raised     {bound} {rule.limit:g}, for {rule.hold:g} s; over at {rule.clear:g}, for {rule.rest:g} s")
    lines.append(f"remedy     {rule.remedy}")
    lines += [
        f"now        {each.target} since {each.raised}: {harmless(each.message.encode())}" for each in alarms
    ] or ["now        about nothing"]
    return lines


def alarm_document(alarm: Alarm) -> JsonObject:
    """An alarm for programs."""
    return {
        "rule": alarm.rule,
        "severity": str(alarm.severity),
        "kind": alarm.kind,
        "namespace": alarm.namespace,
        "name": alarm.name,
        "part": alarm.part,
        "since": alarm.raised,
        "reason": alarm.reason,
        "message": alarm.message,
        "remedy": RULES[alarm.rule].remedy,
    }
