"""The condition `Alarm` of VMs and nodes: what is raised about each, in one line.

Called by the checker of alarms. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from kvedge.controller.kubevirt.condition_rules import with_condition, without_conditions
from kvedge.resources.alarms.alarm_state import Alarm
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import ALARM
from kvedge.runtime.clock import rfc3339

_MOST_TOLD: Final = 5
_NONE: Final = "NoAlarm"


def group_by_name(firing: Iterable[Alarm], kind: str) -> Mapping[tuple[str, str], list[Alarm]]:
    """The alarms of all objects of a kind, by namespace and name."""
    found: dict[tuple[str, str], list[Alarm]] = {}
    for alarm in firing:
        if alarm.kind == kind:
            found.setdefault((alarm.namespace, alarm.name), []).append(alarm)
    return found


def plan_conditions(present: Sequence[Condition], alarms: Sequence[Alarm], now: datetime) -> list[Condition] | None:
    """A VM's conditions; None where they are as they should be."""
    old = condition(list(present), ALARM)
    if not alarms:
        return None if old is None else without_conditions(present, {ALARM})
    wanted = _describe(alarms)
    if old is not None and (old.status, old.reason, old.message) == (wanted.status, wanted.reason, wanted.message):
        return None
    return with_condition(present, wanted, now)


def plan_node_condition(present: Sequence[JsonObject], alarms: Sequence[Alarm], now: datetime) -> JsonObject | None:
    """The one condition of a Node; None where it is as it should be. One that has never had an alarm gets none."""
    old: JsonObject = next((item for item in present if item.get("type") == ALARM), {})
    if not alarms and not old:
        return None
    wanted = _describe(alarms)
    if (old.get("status"), old.get("reason"), old.get("message")) == (wanted.status, wanted.reason, wanted.message):
        return None
    moved = old.get("lastTransitionTime") if old.get("status") == wanted.status else None
    return {
        "type": ALARM,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastHeartbeatTime": rfc3339(now),
        "lastTransitionTime": moved or rfc3339(now),
    }


def _describe(alarms: Sequence[Alarm]) -> Condition:
    """The first alarm names the condition; they come with the worst first."""
    if not alarms:
        return Condition(type=ALARM, status="False", reason=_NONE, message="")
    texts = [f"{alarm.rule}: {alarm.message}" for alarm in alarms[:_MOST_TOLD]]
    return Condition(type=ALARM, status="True", reason=alarms[0].rule, message="; ".join(texts))
