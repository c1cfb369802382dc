"""Nodes that say nothing, and clocks that are wrong."""

from __future__ import annotations

import pytest

from kvedge.controller.node.node_plan import (
    LOOK_SECONDS,
    UNRESPONSIVE_SECONDS,
    NodePlan,
    NodeState,
    node_state,
    plan_node,
)
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.types.core import Node, NodeSpec, NodeStatus
from kvedge.runtime.heartbeat_book import HeartbeatBook

LATE = UNRESPONSIVE_SECONDS + 1


def a_node(schedulable: str = "true", ready: str = "True", taint: str = "") -> Node:
    condition = {"type": "Ready", "status": ready, "message": "Kubelet stopped posting node status."}
    return Node(
        metadata=ObjectMeta(name="node-1", labels={SCHEDULABLE: schedulable}),
        spec=NodeSpec(taints=[{"key": taint, "effect": "NoExecute"}] if taint else []),
        status=NodeStatus(conditions=[{"type": "DiskPressure", "status": "False"}, condition]),
    )


def test_a_node_that_was_heard_of_is_left_alone_and_looked_at_again():
    assert plan_node(a_node(), 0.0) == NodePlan(again_after=LOOK_SECONDS)
    assert plan_node(a_node(), UNRESPONSIVE_SECONDS - 5) == NodePlan(again_after=5.0)


def test_a_node_that_was_not_heard_of_for_five_minutes_takes_no_more_vms():
    plan = plan_node(a_node(), LATE)
    assert plan.patch == {"metadata": {"labels": {SCHEDULABLE: "false"}}}
    assert plan.warning == "virt-handler is not responsive, marking node as unresponsive"


def test_a_node_is_marked_and_told_of_once():
    assert plan_node(a_node("false"), LATE) == NodePlan(again_after=LOOK_SECONDS)


def test_a_label_that_was_taken_off_stays_off():
    left = Node(metadata=ObjectMeta(name="node-1"))
    assert plan_node(left, LATE) == NodePlan(again_after=LOOK_SECONDS)


def test_a_node_without_a_handler_of_ours_is_nobodys_business():
    assert plan_node(a_node(), None) == NodePlan()


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_in_trouble_in_the_words_of_kubernetes(ready):
    assert node_state(a_node(ready=ready), 0.0) == NodeState("node-1", "Kubelet stopped posting node status.")


def test_a_node_that_is_ready_or_has_said_nothing_yet_is_in_no_trouble():
    assert node_state(a_node(), 0.0) == NodeState("node-1")
    # Without a heartbeat nobody there tells of VMIs.
    assert node_state(Node(metadata=ObjectMeta(name="new")), None) == NodeState("new", unresponsive=True)


def test_a_node_can_be_declared_out_of_service():
    state = node_state(a_node(ready="Unknown", taint="node.kubernetes.io/out-of-service"), LATE)
    assert (state.out_of_service, state.unresponsive) == (True, True)


def test_a_heartbeat_that_changes_is_a_sign_of_life_whatever_it_says():
    book = HeartbeatBook()
    # A node whose clock is an hour behind, one that is an hour ahead, and one whose clock jumps back.
    for number, beat in enumerate(["2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z", "2026-01-01T00:30:00Z"]):
        moment = 1000.0 + 100 * number
        book.note("node-1", beat, moment)
        assert book.silent_seconds("node-1", moment + 10) == 10.0


def test_a_heartbeat_that_stays_the_same_grows_old_by_our_clock_however_often_its_node_changes():
    book = HeartbeatBook()
    for moment in (1000.0, 1100.0, 1400.0):
        book.note("node-1", "2026-01-01T00:00:00Z", moment)
    assert book.silent_seconds("node-1", 1400.0) == 400.0


def test_a_new_controller_gives_an_old_heartbeat_the_full_time():
    book = HeartbeatBook()
    book.note("node-1", "2020-01-01T00:00:00Z", 5000.0)
    assert book.silent_seconds("node-1", 5000.0) == 0.0


def test_the_time_in_which_nobody_could_tell_us_is_not_the_nodes_fault():
    book = HeartbeatBook()
    book.note("node-1", "2026-01-01T00:00:00Z", 1000.0)
    book.note_blindness(2000.0)
    assert book.silent_seconds("node-1", 2000.0) == 0.0
    assert book.silent_seconds("node-1", 2301.0) == 301.0


def test_a_node_without_a_heartbeat_was_never_heard_of():
    book = HeartbeatBook()
    assert book.silent_seconds("node-1", 1.0) is None
    book.note("node-1", "", 1.0)
    assert book.silent_seconds("node-1", 1.0) is None
    book.note("node-1", "2026-01-01T00:00:00Z", 1.0)
    book.forget("node-1")
    assert book.silent_seconds("node-1", 1.0) is None
