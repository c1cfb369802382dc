"""The condition Alarm of VMs and nodes."""

from __future__ import annotations

from datetime import UTC, datetime

from kvedge.controller.alarms.alarm_conditions import group_by_name, plan_conditions, plan_node_condition
from kvedge.resources.alarms.alarm_state import Alarm, State
from kvedge.resources.meta import Condition

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 5, 1, 13, tzinfo=UTC)


def an_alarm(rule: str, kind: str = "VirtualMachine", name: str = "web", message: str = "bad") -> Alarm:
    return Alarm(rule, "v1", kind, "shop", name, "u1", State.FIRING, "", message)


def test_a_vm_has_the_condition_as_long_as_there_is_an_alarm() -> None:
    ready = Condition(type="Ready", status="True")
    raised = plan_conditions([ready], [an_alarm("VMFlapping"), an_alarm("GuestAgentGone")], NOON)
    assert raised is not None
    assert [(each.type, each.reason) for each in raised] == [("Ready", ""), ("Alarm", "VMFlapping")]
    assert raised[1].message == "VMFlapping: bad; GuestAgentGone: bad"
    assert plan_conditions(raised, [an_alarm("VMFlapping"), an_alarm("GuestAgentGone")], LATER) is None
    changed = plan_conditions(raised, [an_alarm("GuestAgentGone")], LATER)
    assert changed is not None
    assert (changed[1].reason, changed[1].last_transition_time) == ("GuestAgentGone", "2026-05-01T12:00:00Z")
    assert plan_conditions(raised, [], LATER) == [ready]
    assert plan_conditions([ready], [], NOON) is None


def test_a_node_keeps_the_condition_and_it_says_that_there_is_none() -> None:
    assert plan_node_condition([{"type": "Ready"}], [], NOON) is None
    raised = plan_node_condition([], [an_alarm("NodeLost", "Node")], NOON)
    assert raised is not None
    assert (raised["status"], raised["reason"]) == ("True", "NodeLost")
    assert plan_node_condition([raised], [an_alarm("NodeLost", "Node")], LATER) is None
    cleared = plan_node_condition([raised], [], LATER)
    assert cleared is not None
    assert (cleared["status"], cleared["reason"], cleared["lastTransitionTime"]) == (
        "False",
        "NoAlarm",
        "2026-05-01T13:00:00Z",
    )
    assert plan_node_condition([cleared], [], LATER) is None


def test_alarms_are_found_by_the_object_that_they_are_about() -> None:
    found = group_by_name(
        [an_alarm("VMFlapping"), an_alarm("NodeLost", "Node"), an_alarm("VMFlapping", name="b")], "Node"
    )
    assert [(key, len(alarms)) for key, alarms in found.items()] == [(("shop", "web"), 1)]
