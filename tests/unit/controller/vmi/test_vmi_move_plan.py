"""A VMI whose guest moves: what the end of one of its Pods means, and which Pod is ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vmi.vmi_move_plan import GUEST_LOST, LEFT_SECONDS, REPORT_SECONDS
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import ConfirmPodLost, CreatePod, DeletePod, PatchVmi, VmiPlan, VmiView
from kvedge.resources.codec import decode, encode
from kvedge.resources.names import MIGRATION_TARGET_NODE
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import CONFIG, NOW, a_pod, patched
from tests.support.migrating import SOURCE, TARGET, a_migrating_vmi, a_target_pod

NODES: dict[str, Any] = {"node": NodeState("node-1"), "target_node": NodeState("node-2")}
MOMENT = rfc3339(NOW)


def planned(vmi: VirtualMachineInstance, *pods: Pod, **view: Any) -> VmiPlan:
    return plan_vmi(VmiView(vmi, pods, **{**NODES, **view}), CONFIG, NOW)


def after(vmi: VirtualMachineInstance, plan: VmiPlan) -> VirtualMachineInstance:
    document = encode(vmi)
    for action in plan.actions:
        if isinstance(action, PatchVmi):
            document = patched(document, action.body)
    return decode(VirtualMachineInstance, document)


def state_of(vmi: VirtualMachineInstance) -> MigrationState:
    assert vmi.status.migration_state is not None
    return vmi.status.migration_state


def deleted(plan: VmiPlan) -> list[str]:
    return [action.pod.metadata.name for action in plan.actions if isinstance(action, DeletePod)]


def test_a_source_that_has_ended_ends_nothing_and_that_is_written_down():
    vmi = a_migrating_vmi()
    plan = planned(vmi, a_pod(vmi, "Succeeded", "node-1"), a_target_pod(vmi), podless_seconds=900)
    made = after(vmi, plan)
    assert made.status.phase == "Running"
    assert state_of(made).source_pod_gone_timestamp == MOMENT
    assert state_of(made).is_open
    assert deleted(plan) == []
    again = planned(made, a_pod(vmi, "Succeeded", "node-1"), a_target_pod(vmi), podless_seconds=900)
    assert again == VmiPlan()


def test_a_source_that_is_missing_ends_nothing_and_proves_nothing():
    vmi = a_migrating_vmi()
    made = after(vmi, planned(vmi, a_target_pod(vmi), podless_seconds=900))
    assert made.status.phase == "Running"
    assert state_of(made).source_pod_gone_timestamp is None


@pytest.mark.parametrize(
    "proof",
    [
        pytest.param({"was_ended": True}, id="it had reported its end"),
        pytest.param({"node": NodeState("node-1", trouble="lost", out_of_service=True)}, id="out of service"),
        pytest.param({"node": None}, id="no Node any more"),
    ],
)
def test_a_source_that_is_missing_is_gone_on_proof_once_the_server_has_confirmed_it(proof):
    vmi = a_migrating_vmi()
    target = a_target_pod(vmi)
    plan = planned(vmi, target, **proof)
    assert plan.actions[0] == ConfirmPodLost(frozenset({target.metadata.uid}))
    assert state_of(after(vmi, plan)).source_pod_gone_timestamp == MOMENT


def test_a_target_that_ended_is_no_end_of_the_vmi_while_the_source_runs():
    vmi = a_migrating_vmi()
    made = after(vmi, planned(vmi, a_pod(vmi, "Running", "node-1"), a_target_pod(vmi, "Failed")))
    assert made.status.phase == "Running"
    assert state_of(made).is_open


def test_a_vmi_fails_when_both_launchers_have_ended_and_no_handler_reports_it():
    vmi = a_migrating_vmi()
    pods = [a_pod(vmi, "Succeeded", "node-1"), a_target_pod(vmi, "Succeeded")]
    waiting = planned(vmi, *pods, podless_seconds=1.0)
    assert waiting.again_after == REPORT_SECONDS - 1.0
    assert after(vmi, waiting).status.phase == "Running"
    plan = planned(vmi, *pods, podless_seconds=REPORT_SECONDS)
    made = after(vmi, plan)
    assert (made.status.phase, made.status.reason) == ("Failed", GUEST_LOST)
    assert state_of(made).failed
    assert state_of(made).completed
    assert MIGRATION_TARGET_NODE not in made.metadata.labels
    assert plan.warning is not None
    assert plan.warning.message == "the guest's launchers on both nodes have ended during its live migration"


def test_a_guest_that_is_on_neither_node_fails_its_vmi_with_the_reason_that_was_recorded():
    vmi = a_migrating_vmi(
        failed=True, completed=True, failure_reason="power failed", source_node_domain_gone_timestamp=MOMENT
    )
    plan = planned(vmi, a_pod(vmi, "Succeeded", "node-1"), a_target_pod(vmi))
    made = after(vmi, plan)
    assert (made.status.phase, made.status.reason) == ("Failed", GUEST_LOST)
    assert plan.warning is not None
    assert plan.warning.message == "power failed"
    # The Pod that nothing comes to any more goes.
    assert deleted(planned(made, a_pod(vmi, "Succeeded", "node-1"), a_target_pod(vmi))) == [TARGET]


def test_a_failed_migration_leaves_the_guest_its_vmi_and_its_pod_alone():
    vmi = a_migrating_vmi(failed=True, completed=True, end_timestamp=MOMENT)
    plan = planned(vmi, a_pod(vmi, "Running", "node-1"), a_target_pod(vmi))
    assert deleted(plan) == [TARGET]
    made = after(vmi, plan)
    assert made.status.phase == "Running"
    assert MIGRATION_TARGET_NODE not in made.metadata.labels


def test_a_source_that_does_not_end_after_its_guest_has_left_is_deleted():
    vmi = a_migrating_vmi(completed=True, end_timestamp=MOMENT)
    vmi.status.node_name = "node-2"
    pods = [a_pod(vmi, "Running", "node-1"), a_target_pod(vmi)]
    plan = planned(vmi, *pods)
    assert (deleted(plan), plan.again_after) == ([], LEFT_SECONDS)
    vmi = a_migrating_vmi(completed=True, end_timestamp=rfc3339(NOW - timedelta(seconds=LEFT_SECONDS)))
    assert deleted(planned(vmi, *pods)) == [SOURCE]


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        pytest.param(None, [TARGET], id="the guest never left: nothing has come"),
        pytest.param(MOMENT, [], id="the guest has left: nobody knows"),
    ],
)
def test_the_source_of_a_guest_that_somebody_only_says_to_have_moved_is_left_alone(gone, expected):
    vmi = a_migrating_vmi(completed=True, end_timestamp=None, source_node_domain_gone_timestamp=gone)
    vmi.status.node_name = "node-1"
    pods = [a_pod(vmi, "Running", "node-1"), a_target_pod(vmi)]
    plan = planned(vmi, *pods)
    assert deleted(plan) == expected
    assert after(vmi, plan).status.phase == "Running"


def test_a_source_that_ended_after_its_guest_had_left_stays_and_ends_nothing():
    vmi = a_migrating_vmi(completed=True, end_timestamp=rfc3339(NOW - timedelta(hours=1)))
    vmi.status.node_name = "node-2"
    plan = planned(vmi, a_pod(vmi, "Succeeded", "node-1"), a_target_pod(vmi))
    assert deleted(plan) == []
    assert after(vmi, plan).status.phase == "Running"


def test_the_pod_of_a_migration_that_is_not_handed_over_yet_is_left_to_it():
    vmi = a_migrating_vmi(
        completed=True, migration_uid="an-earlier-one", target_node="node-1", target_pod=SOURCE, source_pod="gone"
    )
    plan = planned(vmi, a_pod(vmi, "Running", "node-1"), a_target_pod(vmi))
    assert deleted(plan) == []


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_vmi_that_is_deleted_while_it_moves_ends_the_pod_that_its_guest_leaves_and_keeps_its_finalizer(phase):
    vmi = a_migrating_vmi()
    vmi.metadata.deletion_timestamp = MOMENT
    plan = planned(vmi, a_pod(vmi, phase, "node-1"), a_target_pod(vmi))
    # A guest that has come is let run first, and then asked to shut down.
    assert deleted(plan) == [SOURCE]
    assert after(vmi, plan).metadata.finalizers == vmi.metadata.finalizers
    vmi.status.migration_state.failed = vmi.status.migration_state.completed = True
    assert (TARGET in deleted(planned(vmi, a_pod(vmi, phase, "node-1"), a_target_pod(vmi)))) is (phase == "Running")


def test_no_run_begins_while_the_target_of_an_earlier_one_is_there():
    earlier = a_migrating_vmi()
    earlier.metadata.uid = "an-earlier-run"
    vmi = a_migrating_vmi()
    vmi.status.migration_state, vmi.status.phase = None, "Pending"
    view = VmiView(vmi, (), earlier_pods=(a_pod(earlier, "Succeeded", "node-1"), a_target_pod(earlier)))
    plan = plan_vmi(view, CONFIG, NOW)
    assert not any(isinstance(action, CreatePod) for action in plan.actions)
    assert plan.again_after == 1.0


def test_a_run_that_is_over_moves_no_more():
    vmi = a_migrating_vmi()
    vmi.status.phase = "Succeeded"
    plan = planned(vmi, a_pod(vmi, "Succeeded", "node-1"), a_target_pod(vmi))
    assert deleted(plan) == [TARGET]
    made = after(vmi, plan)
    assert state_of(made).failed
    assert state_of(made).failure_reason == "the guest ended while it was to move"
    assert MIGRATION_TARGET_NODE not in after(made, planned(made, a_pod(vmi, "Succeeded", "node-1"))).metadata.labels


def test_a_guest_that_ended_before_it_began_to_move_has_ended_like_any_other():
    vmi = a_migrating_vmi(start_timestamp=None)
    plan = plan_vmi(VmiView(vmi, (a_pod(vmi, "Succeeded", "node-1"), a_target_pod(vmi)), 60.0), CONFIG, NOW)
    made = after(vmi, plan)
    assert (made.status.phase, state_of(made).source_pod_gone_timestamp) == ("Succeeded", None)
