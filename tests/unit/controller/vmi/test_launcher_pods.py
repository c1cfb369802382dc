"""Which of a VMI's Pods has its guest, which have ended, and what is proven of those that are missing."""

from __future__ import annotations

import pytest

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vmi.launcher_pods import has_moved, is_off, launcher_name, launcher_of, list_active, target_of
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import POD_UID, a_pod, a_vmi
from tests.support.migrating import SOURCE, TARGET, TARGET_UID, a_migrating_vmi, a_target_pod

FINE = NodeState("node-1")


def with_state(**state: object) -> VirtualMachineInstance:
    return a_migrating_vmi(**state)


def names(vmi: VirtualMachineInstance, *phases: str) -> tuple[str, str]:
    source, target = phases or ("Running", "Running")
    pods = [a_pod(vmi, source, "node-1"), a_target_pod(vmi, target)]
    launcher, coming = launcher_of(vmi, pods), target_of(vmi, pods)
    return (launcher.metadata.name if launcher else "", coming.metadata.name if coming else "")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param({}, SOURCE, id="open: the source"),
        pytest.param({"failed": True, "completed": True}, SOURCE, id="failed: the source"),
        pytest.param({"completed": True}, TARGET, id="completed: the target"),
    ],
)
def test_one_of_two_pods_has_the_guest(state, expected):
    vmi = with_state(**state)
    assert names(vmi) == (expected, TARGET)
    assert launcher_name(vmi) == expected
    # That it has ended does not make the other one the launcher.
    ended = ("Succeeded", "Running") if expected == SOURCE else ("Running", "Succeeded")
    assert names(vmi, *ended)[0] == expected


def test_a_guest_has_moved_with_the_node_of_its_vmi_alone():
    vmi = with_state(completed=True)
    assert has_moved(vmi)
    vmi.status.node_name = "node-1"
    assert not has_moved(vmi)
    assert names(vmi) == (SOURCE, TARGET)
    assert launcher_name(vmi) == SOURCE
    assert not has_moved(with_state(completed=True, failed=True, target_node="node-1"))
    assert not has_moved(with_state())
    nowhere = with_state(completed=True, target_node="")
    assert not has_moved(nowhere)


def test_a_pod_that_waits_for_a_guest_before_the_hand_over_is_not_the_launcher():
    vmi = a_vmi("Running")
    assert launcher_of(vmi, [a_target_pod(vmi)]) is None
    assert names(vmi, "Failed", "Running") == (SOURCE, "")


def test_a_guest_that_came_back_to_a_node_is_not_in_the_pod_that_it_had_there_before():
    vmi = a_vmi("Running")
    state = MigrationState(migration_uid="2", source_pod="second", target_pod="third", target_node="node-1")
    state.completed = True
    vmi.status.migration_state = state
    first, third = a_pod(vmi, "Succeeded", "node-1"), a_target_pod(vmi, node="node-1")
    third.metadata.name = "third"
    assert launcher_of(vmi, [first, third]) is third
    assert list_active(vmi, [first, third]) == {TARGET_UID: "node-1"}


def test_a_vmi_that_tells_nothing_of_its_migrations_any_more_has_the_pod_of_its_node():
    vmi = a_vmi("Running")
    assert launcher_of(vmi, [a_target_pod(vmi, node="node-1")]) is not None
    assert launcher_of(vmi, [a_target_pod(vmi, node="node-2")]) is None


@pytest.mark.parametrize(
    ("state", "phases", "expected"),
    [
        pytest.param({}, ("Running", "Running"), {POD_UID: "node-1", TARGET_UID: "node-2"}, id="both live"),
        pytest.param({}, ("Succeeded", "Running"), {POD_UID: "node-1", TARGET_UID: "node-2"}, id="the launcher stays"),
        pytest.param({}, ("Running", "Failed"), {POD_UID: "node-1"}, id="the target has ended"),
        pytest.param({"completed": True}, ("Succeeded", "Running"), {TARGET_UID: "node-2"}, id="the guest has left"),
    ],
)
def test_the_active_pods_are_those_that_have_not_ended_and_the_launchers(state, phases, expected):
    vmi = with_state(**state)
    if vmi.status.migration_state is not None and vmi.status.migration_state.completed:
        vmi.status.node_name = "node-2"
    pods = [a_pod(vmi, phases[0], "node-1"), a_target_pod(vmi, phases[1])]
    assert list_active(vmi, pods) == expected


def test_a_pod_that_is_missing_stays_active_while_the_guest_moves():
    both = {POD_UID: "node-1", TARGET_UID: "node-2"}
    vmi = with_state()
    assert list_active(vmi, []) == both
    failed = with_state(failed=True, completed=True)
    assert list_active(failed, []) == {POD_UID: "node-1"}


@pytest.mark.parametrize(
    ("node", "was_ended", "expected"),
    [
        pytest.param(FINE, False, False, id="merely missing"),
        pytest.param(NodeState("node-1", trouble="lost", unresponsive=True), False, False, id="node lost"),
        pytest.param(FINE, True, True, id="its end was reported"),
        pytest.param(None, False, True, id="its Node was deleted"),
        pytest.param(NodeState("node-1", trouble="lost", out_of_service=True), False, True, id="out of service"),
    ],
)
def test_a_pod_that_is_missing_is_off_on_proof_alone(node, was_ended, expected):
    assert is_off(None, node, was_ended=was_ended) is expected


def test_a_pod_is_off_when_its_kubelet_says_so_of_the_launcher():
    vmi = a_vmi("Running")
    assert is_off(a_pod(vmi, "Succeeded", "node-1"), FINE, was_ended=False)
    assert not is_off(a_pod(vmi, "Running", "node-1"), None, was_ended=False)
    refused = a_pod(vmi, "Failed", "node-1")
    refused.status.container_statuses = []
    assert not is_off(refused, FINE, was_ended=False)
    assert is_off(refused, None, was_ended=False)
