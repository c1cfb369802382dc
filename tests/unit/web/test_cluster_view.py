"""What the pages of nodes, volumes and alarms are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kvedge.client.networks.network_rows import network_rows
from kvedge.client.tasks.task_rows import task_rows
from kvedge.client.volumes.volume_rows import volume_rows
from kvedge.resources.alarms.alarm_rules import RULES
from kvedge.resources.alarms.alarm_state import Alarm, State
from kvedge.resources.codec import decode
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import Node, NodeAddress, NodeSpec, NodeStatus
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.web.cluster_view import alarms_view, networks_view, nodes_view, tasks_view, volumes_view
from tests.support.builders import a_claim, a_vmi

_NOW = datetime(2026, 1, 2, tzinfo=UTC)


def node(name: str, ready: str = "True", **spec: bool) -> Node:
    conditions = [
        {"type": "Ready", "status": ready, "reason": "KubeletNotReady"},
        {"type": "DiskPressure", "status": "True", "message": "\u202e" * 5000},
        {"type": "MemoryPressure", "status": "False", "message": "fine"},
        {"type": "StoreCopied", "status": "True", "message": "the newest copy is there"},
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
    assert rows[0]["memory"] == 8 << 30


@pytest.mark.parametrize("told", [{}, {"memory": "much"}], ids=["nothing", "no amount"])
def test_memory_that_nobody_can_read_is_not_told(told: dict[str, str]) -> None:
    [row] = nodes_view([Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable=told))], [])["rows"]
    assert row["memory"] is None


def test_volumes_tell_who_uses_them_and_have_an_end() -> None:
    rows = volume_rows([a_claim(f"claim-{index}") for index in range(1001)], {("default", "claim-0"): ["web"]}, _NOW)
    view = volumes_view(rows)
    assert (len(view["rows"]), view["more"]) == (1000, 1)
    assert view["rows"][0]["usedBy"] == ["web"]


def test_networks_tell_who_is_on_them() -> None:
    document = {"metadata": {"name": "lan", "namespace": "shop"}, "spec": {"config": "{}"}}
    rows = network_rows([decode(NetworkAttachmentDefinition, document)], {("shop", "lan"): ["web", "other/till"]}, _NOW)
    view = networks_view(rows)
    [row] = view["rows"]
    assert (row["name"], row["kind"], row["usedBy"]) == ("lan", "other", ["web", "other/till"])
    assert view["more"] == 0


def test_only_a_migration_under_way_can_be_cancelled_and_only_vms_are_links() -> None:
    found = [
        decode(VirtualMachineInstanceMigration, {"metadata": {"name": "m"}, "spec": {"vmiName": "web"}}),
        decode(
            VirtualMachineInstanceMigration,
            {"metadata": {"name": "n"}, "spec": {"vmiName": "web"}, "status": {"phase": "Failed"}},
        ),
        decode(DataVolume, {"metadata": {"name": "root"}, "status": {"phase": "\u202e"}}),
    ]
    rows = tasks_view(task_rows(found, _NOW, timedelta(hours=1)))["rows"]
    assert {(row["name"], row["cancel"], row["ofVm"]) for row in rows} == {
        ("m", True, True),
        ("n", False, True),
        ("root", False, False),
    }
    assert not any("\u202e" in row["message"] for row in rows)


def test_an_alarm_comes_with_what_to_do() -> None:
    rule = next(iter(RULES))
    alarm = Alarm(rule, "kubevirt.io/v1", "VirtualMachine", "shop", "web", "u", State.FIRING, "", message="\u202e")
    [row] = alarms_view([alarm])["rows"]
    assert (row["name"], row["remedy"]) == ("web", RULES[rule].remedy)
    assert "\u202e" not in row["message"]
