# Tests: kvedge/controller/vmi/vmi_plan.py, kvedge/controller/vmi/vmi_end_plan.py, kvedge/controller/vmi/vmi_status.py
"""A VMI whose node has ended its guest: its Pod is forgotten, it fails at once, and its VM may start again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import ConfirmPodLost, ForgetPod, PatchVmi, VmiPlan, VmiView
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, NOW, a_pod, a_vmi, patched
from tests.support.migrating import a_migrating_vmi, a_target_pod

LOST = NodeState("node-1", trouble="Kubelet stopped posting node status.")
FENCED = replace(LOST, is_fenced=True)


def a_lost_run(*, deleting: bool = False) -> tuple[VirtualMachineInstance, Pod]:
    vmi = a_vmi("Running", deleting=deleting)
    vmi.status.node_name = "node-1"
    return vmi, a_pod(vmi, "Running", "node-1")


def after(vmi: VirtualMachineInstance, plan: VmiPlan) -> VirtualMachineInstance:
    document = encode(vmi)
    for action in plan.actions:
        if isinstance(action, PatchVmi):
            document = patched(document, action.body)
    return decode(VirtualMachineInstance, document)


@pytest.mark.parametrize("deleting", [False, True], ids=["runs", "is deleted"])
def test_the_pod_is_forgotten_before_anything_else(deleting: bool) -> None:
    vmi, pod = a_lost_run(deleting=deleting)
    view = VmiView(vmi, [pod], node=FENCED, fenced_nodes=frozenset({"node-1"}))
    assert plan_vmi(view, CONFIG, NOW).actions == (ForgetPod(pod),)


def test_a_pod_of_another_node_stays() -> None:
    vmi, pod = a_lost_run()
    view = VmiView(vmi, [pod], node=LOST, fenced_nodes=frozenset({"node-2"}))
    assert not any(isinstance(action, ForgetPod) for action in plan_vmi(view, CONFIG, NOW).actions)


def test_without_its_pod_the_run_has_failed_at_once_and_the_reason_says_so() -> None:
    vmi, _ = a_lost_run()
    plan = plan_vmi(VmiView(vmi, [], node=FENCED, fenced_nodes=frozenset({"node-1"})), CONFIG, NOW)
    assert plan.actions[0] == ConfirmPodLost()
    made = after(vmi, plan)
    assert (made.status.phase, made.status.reason) == ("Failed", "NodeFenced")
    assert plan.warning is not None
    assert "has ended the guest by itself" in plan.warning.message


def test_without_the_proof_it_waits_and_says_for_what() -> None:
    vmi, pod = a_lost_run()
    waits_for = "nothing is started elsewhere before the node is back, or it has been silent for 120 s"
    made = after(vmi, plan_vmi(VmiView(vmi, [pod], node=replace(LOST, waits_for=waits_for)), CONFIG, NOW))
    found = condition(made.status.conditions, "Ready")
    assert found is not None
    assert made.status.phase == "Running"
    assert waits_for in found.message


def test_a_source_that_is_fenced_counts_as_gone_and_the_arbiter_decides() -> None:
    vmi = a_migrating_vmi()
    state = vmi.status.migration_state
    assert state is not None
    source = replace(FENCED, name=state.source_node)
    target = a_target_pod(vmi)
    view = VmiView(
        vmi,
        [target],
        node=source,
        target_node=NodeState(state.target_node),
        fenced_nodes=frozenset({state.source_node}),
    )
    made = after(vmi, plan_vmi(view, CONFIG, NOW))
    assert made.status.phase == "Running"
    assert made.status.migration_state is not None
    assert made.status.migration_state.source_pod_gone_timestamp is not None


def test_with_both_nodes_fenced_the_guest_is_lost() -> None:
    vmi = a_migrating_vmi()
    state = vmi.status.migration_state
    assert state is not None
    view = VmiView(
        vmi,
        [],
        podless_seconds=1000.0,
        node=replace(FENCED, name=state.source_node),
        target_node=replace(FENCED, name=state.target_node),
        fenced_nodes=frozenset({state.source_node, state.target_node}),
    )
    made = after(vmi, plan_vmi(view, CONFIG, NOW))
    assert (made.status.phase, made.status.reason) == ("Failed", "GuestLost")
