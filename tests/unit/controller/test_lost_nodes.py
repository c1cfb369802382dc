# Tests: kvedge/controller/node/node_plan.py, kvedge/controller/vm/vm_plan.py, kvedge/controller/vmi/vmi_plan.py
# Tests: kvedge/controller/vmi/launcher_pod_status.py
"""A VMI whose node is lost, drained or short of something: what is said of it, and that it never runs twice."""

from __future__ import annotations

import pytest

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vm.vm_actions import CreateVmi
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi.vmi_end_plan import ENDED_SECONDS, KUBELET_SECONDS, LOST_SECONDS
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import ConfirmPodLost, CreatePod, DeletePod, PatchVmi, VmiPlan, VmiView
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import VMI_FINALIZER
from kvedge.resources.types.core import Container, ContainerState, ContainerStateTerminated, Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import CONFIG, NOW, a_pod, a_vm, a_vmi, patched

LOST = NodeState("node-1", trouble="Kubelet stopped posting node status.")
SILENT = NodeState("node-1", trouble="Kubelet stopped posting node status.", unresponsive=True)
FINE = NodeState("node-1")
STRATEGIES = ["Always", "RerunOnFailure", "Manual", "Once", "Halted"]


def planned(
    vmi: VirtualMachineInstance,
    *pods: Pod,
    node: NodeState | None = LOST,
    podless: float = 0.0,
    was_ended: bool = False,
) -> VmiPlan:
    return plan_vmi(VmiView(vmi, pods, podless, node=node, was_ended=was_ended), CONFIG, NOW)


def after(vmi: VirtualMachineInstance, plan: VmiPlan) -> VirtualMachineInstance:
    document = encode(vmi)
    for action in plan.actions:
        if isinstance(action, PatchVmi):
            document = patched(document, action.body)
    return decode(VirtualMachineInstance, document)


def ready(vmi: VirtualMachineInstance) -> Condition:
    found = condition(vmi.status.conditions, "Ready")
    assert found is not None
    return found


def going(pod: Pod, reason: str = "", message: str = "") -> Pod:
    """The Pod was asked to end, by whoever says so in its condition."""
    pod.metadata.deletion_timestamp = rfc3339(NOW)
    return disrupted(pod, reason, message) if reason else pod


def disrupted(pod: Pod, reason: str, message: str) -> Pod:
    mark = Condition(type="DisruptionTarget", status="True", reason=reason, message=message)
    pod.status.conditions = [*pod.status.conditions, mark]
    return pod


def exited(pod: Pod, code: int) -> Pod:
    """The launcher has ended, something else in the Pod goes on."""
    ended = ContainerStateTerminated(exit_code=code, reason="Error" if code else "Completed")
    pod.status.container_statuses[0].state = ContainerState(terminated=ended)
    pod.spec.containers = [Container(name="sidecar"), *pod.spec.containers]
    return pod


def test_a_vmi_on_a_node_that_is_not_ready_is_marked_told_of_and_left_running():
    vmi = a_vmi("Running")
    plan = planned(vmi, a_pod(vmi, "Running", "node-1"))
    made = after(vmi, plan)
    assert made.status.phase == "Running"
    assert (ready(made).status, ready(made).reason) == ("False", "NodeNotReady")
    assert "Kubelet stopped posting node status." in ready(made).message
    assert plan.warning is not None
    assert plan.warning.reason == "NodeNotReady"
    again = planned(made, a_pod(made, "Running", "node-1"))
    assert not any(isinstance(action, PatchVmi) for action in again.actions)


def test_a_node_that_comes_back_takes_the_mark_away():
    vmi = a_vmi("Running")
    vmi = after(vmi, planned(vmi, a_pod(vmi, "Running", "node-1")))
    made = after(vmi, planned(vmi, a_pod(vmi, "Running", "node-1"), node=FINE))
    assert ready(made).status == "True"


def test_a_pod_that_terminates_on_a_lost_node_counts_as_running_and_says_what_to_do():
    vmi = a_vmi("Running")
    pod = going(a_pod(vmi, "Running", "node-1"), "DeletionByTaintManager", "Taint manager: deleting due to NoExecute")
    for podless in (0.0, 100_000.0):
        plan = planned(vmi, pod, node=SILENT, podless=podless)
        made = after(vmi, plan)
        assert made.status.phase == "Running"
        assert not any(isinstance(action, CreatePod) for action in plan.actions)
    assert ready(made).reason == "PodTerminating"
    assert "DeletionByTaintManager" in ready(made).message
    assert "node.kubernetes.io/out-of-service" in ready(made).message


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_what_no_kubelet_has_called_ended_may_still_run(phase):
    vmi = a_vmi("Running")
    assert not has_ended(a_pod(vmi, phase, "node-1"))
    assert not has_ended(going(a_pod(vmi, phase, "node-1")))


@pytest.mark.parametrize("phase", ["Scheduling", "Scheduled", "Running", "Failed", "Succeeded", "Unknown"])
@pytest.mark.parametrize("pod_phase", ["Pending", "Running", "Unknown"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_vm_gets_another_run_while_a_pod_of_the_last_one_is_there(phase, pod_phase, strategy):
    """Neither a second Pod for the VMI, nor a second VMI: its finalizer stays as long as the Pod does."""
    vm = a_vm(strategy)
    vmi = a_vmi(phase, deleting=True, owner=vm)
    pod = going(a_pod(vmi, pod_phase, "node-1"))
    plan = planned(vmi, pod, node=SILENT, podless=100_000.0)
    assert not any(isinstance(action, CreatePod | ConfirmPodLost) for action in plan.actions)
    made = after(vmi, plan)
    assert VMI_FINALIZER in made.metadata.finalizers
    assert not any(isinstance(action, CreateVmi) for action in plan_vm(vm, made, NOW, 0.5).actions)


def test_who_waits_for_the_end_of_a_vm_on_a_lost_node_is_told_why():
    vmi = a_vmi("Failed", deleting=True)
    pod = going(a_pod(vmi, "Running", "node-1"))
    made = after(vmi, planned(vmi, pod))
    assert "node node-1 is not ready, and the guest may still run there" in ready(made).message


def test_once_the_pod_is_buried_that_was_on_a_silent_node_the_run_has_failed_in_kubevirts_words():
    vmi = a_vmi("Running")
    plan = planned(vmi, node=SILENT, was_ended=True)
    assert [type(action).__name__ for action in plan.actions] == ["ConfirmPodLost", "PatchVmi"]
    status = after(vmi, plan).status
    assert (status.phase, status.reason) == ("Failed", "NodeUnresponsive")
    assert plan.warning is not None
    assert plan.warning.message == "virt-handler on node node-1 is not responsive, marking VMI as failed"


def test_a_handler_that_answers_has_its_chance_before():
    vmi = a_vmi("Running")
    assert planned(vmi, node=FINE).again_after == LOST_SECONDS


@pytest.mark.parametrize("node", [FINE, LOST, SILENT], ids=["fine", "lost", "lost, and silent for long"])
def test_a_guest_whose_pod_was_deleted_by_force_may_run_as_long_as_somebody_can_tell(node: NodeState):
    vmi = a_vmi("Running")
    plan = planned(vmi, node=node, podless=3600.0)
    made = after(vmi, plan)
    assert made.status.phase == "Running"
    assert "virt-launcher pod is gone, but nobody has said that the guest has ended" in ready(made).message
    assert "node-1" in ready(made).message
    assert plan.warning == ready(made)
    # It is told once, and what ends the wait is a change of the VMI or of the Node.
    assert planned(made, node=node, podless=7200.0) == VmiPlan()


def test_who_waits_for_a_guest_without_a_pod_on_a_lost_node_is_told_what_to_do():
    vmi = a_vmi("Running")
    made = after(vmi, planned(vmi, node=SILENT, podless=10.0))
    assert ready(made).reason == "NodeNotReady"
    assert "node.kubernetes.io/out-of-service" in ready(made).message


@pytest.mark.parametrize("deleting", [False, True])
def test_a_deleted_vmi_without_a_pod_keeps_its_finalizer_until_its_guest_is_said_to_have_ended(deleting):
    vmi = a_vmi("Running", deleting=deleting, owner=a_vm())
    made = after(vmi, planned(vmi, node=FINE, podless=3600.0))
    assert VMI_FINALIZER in made.metadata.finalizers
    made.status.phase = "Succeeded"
    made.metadata.deletion_timestamp = rfc3339(NOW)
    assert VMI_FINALIZER not in after(made, planned(made, node=FINE, podless=3600.0)).metadata.finalizers


def test_a_pod_whose_launcher_was_said_to_have_ended_leaves_nothing_to_wait_for():
    vmi = a_vmi("Running")
    status = after(vmi, planned(vmi, node=FINE, podless=LOST_SECONDS, was_ended=True)).status
    assert (status.phase, status.reason) == ("Failed", "PodLost")


@pytest.mark.parametrize(
    "node",
    [None, NodeState("node-1", trouble="gone", unresponsive=True, out_of_service=True)],
    ids=["its Node is deleted", "it is out of service"],
)
def test_a_pod_that_was_deleted_by_force_fails_the_run_of_a_node_that_is_declared_dead(node: NodeState | None):
    vmi = a_vmi("Running")
    assert after(vmi, planned(vmi, node=node, podless=LOST_SECONDS)).status.phase == "Failed"


def test_a_kubelet_has_its_time_to_end_a_launcher_that_no_handler_watches():
    vmi = a_vmi("Running")
    node = NodeState("node-1", unresponsive=True)
    grace = 30.0 + 30.0 + KUBELET_SECONDS
    early = planned(vmi, node=node, podless=grace - 1.0)
    assert (after(vmi, early).status.phase, early.again_after) == ("Running", 1.0)
    assert "grace period" in ready(after(vmi, early)).message
    assert after(vmi, planned(vmi, node=node, podless=grace)).status.phase == "Failed"
    assert after(vmi, planned(vmi, refused(vmi), node=node, podless=grace - 1.0)).status.phase == "Running"


def test_a_launcher_that_does_not_answer_is_ended_with_its_pod():
    vmi = a_vmi("Running")
    vmi.status.conditions = [Condition(type="Synchronized", status="False", reason="LauncherNotResponding")]
    pod = a_pod(vmi, "Running", "node-1")
    assert DeletePod(pod) in planned(vmi, pod, node=FINE).actions
    assert not any(isinstance(action, DeletePod) for action in planned(vmi, going(pod), node=FINE).actions)


def test_the_garbage_collectors_word_ends_a_run_on_a_node_that_is_gone():
    """It calls a Pod Failed only when the Node is no more, or out of service."""
    vmi = a_vmi("Running")
    pod = disrupted(a_pod(vmi, "Failed", "node-1"), "DeletionByPodGC", "PodGC: node no longer exists")
    status = after(vmi, planned(vmi, pod, node=SILENT, podless=ENDED_SECONDS)).status
    assert (status.phase, status.reason) == ("Failed", "NodeUnresponsive")


def test_a_pod_that_a_restarted_kubelet_refuses_is_waited_for_even_on_a_silent_node():
    """It is called failed while its guest is still being ended, and could be removed and followed at once."""
    vmi = a_vmi("Running", deleting=True)
    pod = a_pod(vmi, "Failed", "node-1")
    pod.status.reason = "OutOfdevices.kubevirt.io/tun"
    plan = planned(vmi, pod, node=SILENT, podless=1.0)
    assert plan.again_after == ENDED_SECONDS - 1.0
    assert not any(isinstance(action, DeletePod) for action in plan.actions)
    assert after(vmi, plan).status.phase == "Running"


def test_a_drained_pod_says_who_ends_it_in_a_condition_and_an_event():
    vmi = a_vmi("Running")
    pod = going(a_pod(vmi, "Running", "node-1"), "EvictionByEvictionAPI", "Eviction API: evicting")
    plan = planned(vmi, pod, node=FINE)
    made = after(vmi, plan)
    assert ready(made).reason == "PodTerminating"
    assert ready(made).message == "virt-launcher pod is terminating (EvictionByEvictionAPI: Eviction API: evicting)"
    assert plan.warning is not None
    assert (plan.warning.reason, plan.warning.message) == ("EvictionByEvictionAPI", ready(made).message)
    assert planned(made, pod, node=FINE) == VmiPlan()


def test_a_kubelet_that_is_short_of_memory_says_so_before_it_ends_the_pod():
    vmi = a_vmi("Running")
    pod = disrupted(a_pod(vmi, "Running", "node-1"), "TerminationByKubelet", "The node was low on resource: memory.")
    plan = planned(vmi, pod, node=FINE)
    assert "low on resource: memory" in ready(after(vmi, plan)).message
    assert plan.warning is not None
    assert plan.warning.reason == "TerminationByKubelet"


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_a_launcher_that_exited_has_ended_whatever_sidecars_do(code, phase):
    vmi = a_vmi("Running")
    pod = exited(a_pod(vmi, "Running", "node-1"), code)
    assert has_ended(pod)
    assert after(vmi, planned(vmi, pod, node=FINE, podless=60.0)).status.phase == phase


def test_a_deleted_vmi_with_a_sidecar_that_goes_on_ends_its_pod():
    vmi = a_vmi("Succeeded", deleting=True)
    pod = exited(a_pod(vmi, "Running", "node-1"), 0)
    assert planned(vmi, pod, node=FINE).actions == (DeletePod(pod),)


@pytest.mark.parametrize(("reason", "message"), [("UnexpectedAdmissionError", "no healthy devices"), ("OutOfcpu", "")])
def test_a_pod_that_its_kubelet_refused_fails_the_vmi_with_the_kubelets_words(reason, message):
    vmi = a_vmi("Scheduling")
    pod = a_pod(vmi, "Failed", "node-1")
    pod.status.reason, pod.status.message = reason, message
    plan = planned(vmi, pod)
    made = after(vmi, plan)
    found = condition(made.status.conditions, "Synchronized")
    assert found is not None
    assert (made.status.phase, found.reason) == ("Failed", reason)
    assert message in found.message
    assert plan.warning is not None
    assert plan.warning.message == found.message


@pytest.mark.parametrize("waiting", ["CreateContainerError", "CreateContainerConfigError"])
def test_a_container_that_cannot_be_made_is_told(waiting):
    vmi = a_vmi("Scheduling")
    found = condition(
        after(vmi, planned(vmi, a_pod(vmi, node="node-1", waiting=waiting))).status.conditions, "Synchronized"
    )
    assert found is not None
    assert found.reason == waiting


def test_who_is_asked_to_end_by_its_user_is_not_disrupted():
    vmi = a_vmi("Running", deleting=True)
    pod = going(a_pod(vmi, "Running", "node-1"))
    plan = planned(vmi, pod, node=FINE)
    assert ready(after(vmi, plan)).message == "virt-launcher pod is terminating"
    assert plan.warning is None


def test_a_launcher_that_had_not_started_when_its_node_was_lost_is_marked_too():
    vmi = a_vmi("Scheduling")
    pod = a_pod(vmi, node="node-1")
    plan = planned(vmi, pod)
    made = after(vmi, plan)
    assert (made.status.phase, ready(made).reason) == ("Scheduling", "NodeNotReady")
    assert plan.warning is not None
    made = after(made, planned(made, going(pod)))
    assert (made.status.phase, made.status.reason) == ("Failed", "PodTerminating")
    assert "node.kubernetes.io/out-of-service" in ready(made).message


def refused(vmi: VirtualMachineInstance) -> Pod:
    """A kubelet that restarted does not take the Pod back; of the launcher in it nobody has said anything."""
    pod = a_pod(vmi, "Failed", "node-1")
    pod.status.container_statuses = []
    return pod


@pytest.mark.parametrize(
    "node", [FINE, LOST, SILENT], ids=["node is fine", "node is lost", "lost, and silent for long"]
)
def test_a_pod_that_is_called_failed_may_run_as_long_as_somebody_can_tell(node: NodeState):
    vmi = a_vmi("Running")
    pod = refused(vmi)
    plan = planned(vmi, pod, node=node, podless=3600.0)
    assert after(vmi, plan).status.phase == "Running"
    assert not any(isinstance(action, DeletePod) for action in plan.actions)


@pytest.mark.parametrize(
    "node",
    [
        NodeState("node-1", unresponsive=True),
        NodeState("node-1", trouble="gone", unresponsive=True, out_of_service=True),
    ],
    ids=["its handler is silent, its kubelet works", "it is declared dead"],
)
def test_a_pod_that_is_called_failed_has_failed_when_nobody_will_tell(node: NodeState):
    vmi = a_vmi("Running")
    grace = 60.0 + KUBELET_SECONDS
    assert after(vmi, planned(vmi, refused(vmi), node=node, podless=grace)).status.phase == "Failed"


def test_a_failed_pod_whose_launcher_is_said_to_have_ended_is_not_waited_for():
    vmi = a_vmi("Running")
    pod = exited(a_pod(vmi, "Failed", "node-1"), 137)
    assert after(vmi, planned(vmi, pod, node=FINE, podless=ENDED_SECONDS)).status.phase == "Failed"
