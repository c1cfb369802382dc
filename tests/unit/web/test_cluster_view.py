"""What the pages of nodes, volumes and alarms are told."""

from __future__ import annotations

from datetime import UTC, datetime

from kvedge.client.volumes.volume_rows import volume_rows
from kvedge.resources.alarms.alarm_rules import RULES
from kvedge.resources.alarms.alarm_state import Alarm, State
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Node, NodeAddress, NodeSpec, NodeStatus
from kvedge.web.cluster_view import alarms_view, nodes_view, volumes_view
from tests.support.builders import a_claim, a_vmi

_NOW = datetime(2026, 1, 2, tzinfo=UTC)


def node(name: str, ready: str = "True", **spec: bool) -> Node:
    conditions = [
        {"type": "Ready", "status": ready, "reason": "KubeletNotReady"},
        {"type": "DiskPressure", "status": "True", "message": "\u202e" * 5000},
        {"type": "MemoryPressure", "status": "False", "message": "fine"},
    ]
    status = NodeStatus(
        allocatable={"cpu": "4", "memory": "8Gi"},
        conditions=conditions,
        addresses=[NodeAddress(type="InternalIP", address="10.0.0.1")] * 100,
    )
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(**spec), status=status)


def test_a_node_tells_its_guests_and_what_is_wrong_with_it() -> None:
    nodes = [node("node-2", "Unknown"), node("node-1", unschedulable=True)]
    rows = nodes_view(nodes, [a_vmi(), a_vmi("Failed")])["rows"]
    assert [(row["name"], row["state"], row["guests"], row["trouble"]) for row in rows] == [
        ("node-1", "Ready, takes no new guests", 1, False),
        ("node-2", "Not ready", 0, True),
    ]
    [pressure] = rows[0]["troubles"]
    assert (len(pressure), "\u202e" in pressure, len(rows[0]["addresses"])) == (1024, False, 32)
    assert rows[1]["troubles"][0] == "Ready: KubeletNotReady"


def test_volumes_tell_who_uses_them_and_have_an_end() -> None:
    rows = volume_rows([a_claim(f"claim-{index}") for index in range(1001)], {("default", "claim-0"): ["web"]}, _NOW)
    view = volumes_view(rows)
    assert (len(view["rows"]), view["more"]) == (1000, 1)
    assert view["rows"][0]["usedBy"] == ["web"]


def test_an_alarm_comes_with_what_to_do() -> None:
    rule = next(iter(RULES))
    alarm = Alarm(rule, "kubevirt.io/v1", "VirtualMachine", "shop", "web", "u", State.FIRING, "", message="\u202e")
    [row] = alarms_view([alarm])["rows"]
    assert (row["name"], row["remedy"]) == ("web", RULES[rule].remedy)
    assert "\u202e" not in row["message"]
