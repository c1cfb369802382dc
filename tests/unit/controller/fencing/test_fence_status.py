"""What the KubeVirt object says of nodes that fence themselves."""

from __future__ import annotations

from kvedge.controller.fencing.fence_status import judge_fencing
from kvedge.resources.node_loss.fence_terms import SELF_FENCING, FenceTerms
from kvedge.resources.node_loss.node_lease import NodeFence


def test_nothing_is_said_where_nobody_has_asked() -> None:
    assert judge_fencing({}, []) is None
    assert judge_fencing({SELF_FENCING: "disabled"}, []) is None


def test_armed_nodes_are_named_with_their_watchdogs_and_the_time_that_it_takes() -> None:
    fences = [NodeFence("n1", "b", "softdog, 20 s", FenceTerms(), frozenset({"a", "b"})), NodeFence("n2")]
    found = judge_fencing({SELF_FENCING: "enabled"}, fences)
    assert found is not None
    assert (found.type, found.status, found.reason) == ("NodesFenceThemselves", "True", "Enabled")
    assert "120 s" in found.message
    assert found.message.endswith("n1 (softdog, 20 s; 2)")


def test_of_many_nodes_some_are_named() -> None:
    fences = [NodeFence(f"n{number:03}", "b", "w", FenceTerms(), frozenset({"a"})) for number in range(500)]
    found = judge_fencing({SELF_FENCING: "enabled"}, fences)
    assert found is not None
    assert found.message.endswith(", 480 more")


def test_that_nobody_has_promised_anything_is_said() -> None:
    found = judge_fencing({SELF_FENCING: "enabled"}, [])
    assert found is not None
    assert "no node has a watchdog" in found.message


def test_terms_that_came_past_admission_are_told_of() -> None:
    found = judge_fencing({SELF_FENCING: "soon"}, [])
    assert found is not None
    assert (found.status, found.reason) == ("False", "InvalidTerms")
    assert "'soon' is no term" in found.message
