# Tests: kvedge/controller/vmi/vmi_end_plan.py, kvedge/controller/vmi/vmi_view.py
"""What is done about a VMI: its launcher Pod, its phase up to Scheduled, its end."""

from __future__ import annotations

import msgspec
import pytest

from kvedge.controller.vmi.vmi_end_plan import ENDED_SECONDS, LOST_SECONDS
from kvedge.controller.vmi.vmi_plan import plan_create_failure, plan_vmi
from kvedge.controller.vmi.vmi_view import (
    ConfirmPodLost,
    CreatePod,
    DeletePod,
    PatchPodStatus,
    PatchVmi,
    VmiPlan,
    VmiView,
)
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import LAUNCHER_IMAGE, UNPAUSED_GATE, VM_FINALIZER, VMI_FINALIZER
from kvedge.resources.types.core import Container, Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import CONFIG, NOW, POD_UID, a_pod, a_vm, a_vmi, patched


def planned(vmi: VirtualMachineInstance, *pods: Pod, podless: float = 0.0) -> VmiPlan:
    return plan_vmi(VmiView(vmi, pods, podless), CONFIG, NOW)


def after(vmi: VirtualMachineInstance, plan: VmiPlan) -> VirtualMachineInstance:
    """The VMI once the plan is carried out."""
    document = encode(vmi)
    for action in plan.actions:
        if isinstance(action, PatchVmi):
            document = patched(document, action.body)
    return decode(VirtualMachineInstance, document)


def kinds(plan: VmiPlan) -> list[str]:
    return [type(action).__name__ for action in plan.actions]


def gated(pod: Pod, status: str = "True", reason: str = "NotPaused") -> Pod:
    pod.status.conditions = [*pod.status.conditions, Condition(type=UNPAUSED_GATE, status=status, reason=reason)]
    return pod


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_a_pending_vmi_gets_a_pod(phase):
    plan = planned(a_vmi(phase))
    assert kinds(plan) == ["CreatePod"]
    assert isinstance(plan.actions[0], CreatePod)
    assert plan.actions[0].pod.metadata.owner_references[0].uid == a_vmi().metadata.uid


def test_no_pod_is_created_before_the_finalizer_that_guards_it():
    vmi = a_vmi("Pending")
    vmi.metadata.finalizers = ["other"]
    assert planned(vmi).actions == (PatchVmi({"metadata": {"finalizers": ["other", VMI_FINALIZER]}}),)


def test_no_pod_is_created_while_an_earlier_run_of_that_name_is_still_there():
    earlier = a_vmi("Running")
    earlier.metadata.uid = "an-earlier-run"
    plan = plan_vmi(VmiView(a_vmi("Pending"), (), earlier_pods=(a_pod(earlier, "Running"),)), CONFIG, NOW)
    assert plan.again_after == 1.0
    assert not any(isinstance(action, CreatePod) for action in plan.actions)
    found = condition(after(a_vmi("Pending"), plan).status.conditions, "Synchronized")
    assert found is not None
    assert "waits for the end of pod virt-launcher-web-" in found.message
    ended = plan_vmi(VmiView(a_vmi("Pending"), (), earlier_pods=(a_pod(earlier, "Succeeded"),)), CONFIG, NOW)
    assert kinds(ended) == ["CreatePod"]


def test_a_vmi_with_a_pod_is_scheduling_and_one_write_says_it_all():
    vmi = a_vmi("Pending")
    plan = planned(vmi, a_pod(vmi))
    assert kinds(plan) == ["PatchVmi"]
    status = after(vmi, plan).status
    assert status.phase == "Scheduling"
    assert status.phase_transition_timestamps[-1].phase == "Scheduling"
    assert status.active_pods == {POD_UID: ""}
    assert status.runtime_user == 107
    assert status.launcher_container_image_version == "kvedge.local/launcher:v1"
    assert status.memory is not None
    assert status.memory.memory_overhead == "152Mi"
    ready = condition(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "GuestNotRunning")


def test_a_scheduling_vmi_is_left_alone_while_its_pod_starts():
    vmi = a_vmi("Pending")
    vmi = after(vmi, planned(vmi, a_pod(vmi)))
    assert planned(vmi, a_pod(vmi)) == VmiPlan()


def test_the_hand_over_to_the_handler_is_one_write():
    vmi = a_vmi("Scheduling")
    plan = planned(vmi, a_pod(vmi, "Running", "node-7"))
    assert kinds(plan) == ["PatchVmi", "PatchPodStatus"]
    made = after(vmi, plan)
    assert made.status.phase == "Scheduled"
    assert made.status.node_name == "node-7"
    assert made.metadata.labels["kubevirt.io/nodeName"] == "node-7"
    assert made.status.active_pods == {POD_UID: "node-7"}
    assert made.status.migration_transport == "Unix"


def test_a_guest_is_handed_over_with_the_number_of_its_vsock():
    vmi = a_vmi("Scheduling")
    view = VmiView(vmi, [a_pod(vmi, "Running", "node-7")], vsock_cid=77)
    made = after(vmi, plan_vmi(view, CONFIG, NOW))
    assert (made.status.phase, made.status.vsock_cid) == ("Scheduled", 77)
    assert encode(made)["status"]["VSOCKCID"] == 77


def test_a_guest_that_counts_on_its_nodes_counter_is_handed_over_with_its_frequency():
    vmi = a_vmi("Scheduling")
    for told, written in ((2399998000, {"tscFrequency": 2399998000}), (None, None)):
        view = VmiView(vmi, [a_pod(vmi, "Running", "node-7")], tsc_frequency=told)
        assert encode(after(vmi, plan_vmi(view, CONFIG, NOW)))["status"].get("topologyHints") == written


@pytest.mark.parametrize(("phase", "node"), [("Running", ""), ("Pending", "node-7")])
def test_nothing_is_handed_over_before_the_pod_runs_on_a_node(phase, node):
    vmi = a_vmi("Scheduling")
    assert after(vmi, planned(vmi, a_pod(vmi, phase, node))).status.phase == "Scheduling"


def test_a_disk_that_is_not_ready_keeps_the_vmi_scheduling():
    vmi = a_vmi("Scheduling")
    pod = a_pod(vmi, "Running", "node-7")
    pod.spec.containers += [Container(name="volumeroot")]
    assert after(vmi, planned(vmi, pod)).status.phase == "Scheduling"
    pod.status.container_statuses += [msgspec.structs.replace(pod.status.container_statuses[0], name="volumeroot")]
    assert after(vmi, planned(vmi, pod)).status.phase == "Scheduled"


def test_a_sidecar_that_a_webhook_put_in_keeps_nobody_waiting():
    vmi = a_vmi("Scheduling")
    pod = a_pod(vmi, "Running", "node-7")
    pod.spec.containers = [Container(name="proxy"), *pod.spec.containers]
    compute = pod.status.container_statuses[0]
    pod.status.container_statuses = [msgspec.structs.replace(compute, name="proxy", ready=False, state=None), compute]
    made = after(vmi, planned(vmi, pod))
    assert made.status.phase == "Scheduled"
    assert made.status.launcher_container_image_version == LAUNCHER_IMAGE


def test_a_launcher_whose_guest_is_not_ready_yet_is_handed_over():
    """Without that there would never be a guest that could say it is ready."""
    vmi = a_vmi("Scheduling")
    pod = a_pod(vmi, "Running", "node-7")
    pod.status.container_statuses[0].ready = False
    assert after(vmi, planned(vmi, pod)).status.phase == "Scheduled"
    pod.status.container_statuses[0].state = None
    assert after(vmi, planned(vmi, pod)).status.phase == "Scheduling"


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ("ErrImagePull", "ErrImagePull"),
        ("ImagePullBackOff", "ImagePullBackOff"),
        ("ErrImageNeverPull", "ErrImagePull"),
        ("InvalidImageName", "ErrImagePull"),
    ],
)
def test_an_image_that_cannot_be_had_is_a_condition_and_an_event(waiting, reason):
    vmi = a_vmi("Scheduling")
    plan = planned(vmi, a_pod(vmi, node="node-7", waiting=waiting))
    found = condition(after(vmi, plan).status.conditions, "Synchronized")
    assert found is not None
    assert (found.status, found.reason) == ("False", reason)
    if waiting == "ErrImageNeverPull":
        assert found.message.startswith(f"the launcher image {LAUNCHER_IMAGE} is not on node node-7: ")
        assert found.message.endswith("run kvedge install there")
    else:
        assert found.message == "no such image"
    assert plan.warning is not None
    assert plan.warning.reason == reason


@pytest.mark.parametrize(
    "words",
    [
        'Container image "kvedge.local/disk:1" is not in the local image store, and no registry has it',
        'Container image "docker.io/library/disk:latest" is not present with pull policy of Never',
        f'Container image "{LAUNCHER_IMAGE}-disk" is not present with pull policy of Never',
    ],
)
def test_a_disk_image_that_is_missing_is_not_told_as_the_launchers_own(words):
    """A container waits for the images of its volumes as it does for its own."""
    vmi = a_vmi("Scheduling")
    pod = a_pod(vmi, node="node-7", waiting="ErrImageNeverPull")
    assert pod.status.container_statuses[0].state.waiting is not None
    pod.status.container_statuses[0].state.waiting.message = words
    found = condition(after(vmi, planned(vmi, pod)).status.conditions, "Synchronized")
    assert found is not None
    assert (found.reason, found.message) == ("ErrImagePull", words)


def test_the_launchers_image_that_is_missing_is_told_with_its_remedy():
    vmi = a_vmi("Scheduling")
    pod = a_pod(vmi, node="node-7", waiting="ErrImageNeverPull")
    assert pod.status.container_statuses[0].state.waiting is not None
    words = f'Container image "{LAUNCHER_IMAGE}" is not present with pull policy of Never'
    pod.status.container_statuses[0].state.waiting.message = words
    found = condition(after(vmi, planned(vmi, pod)).status.conditions, "Synchronized")
    assert found is not None
    assert found.message.endswith("run kvedge install there")


def test_an_image_that_arrives_clears_the_condition():
    vmi = a_vmi("Scheduling")
    vmi = after(vmi, planned(vmi, a_pod(vmi, waiting="ErrImagePull")))
    vmi = after(vmi, planned(vmi, a_pod(vmi, waiting="ContainerCreating")))
    assert condition(vmi.status.conditions, "Synchronized") is None


def test_a_pod_that_fits_nowhere_is_told_and_untold():
    vmi, pod = a_vmi("Scheduling"), a_pod(a_vmi())
    pod.status.conditions = [
        Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")
    ]
    vmi = after(vmi, planned(vmi, pod))
    found = condition(vmi.status.conditions, "PodScheduled")
    assert found is not None
    assert (found.reason, found.message) == ("Unschedulable", "0/1 nodes")
    pod.status.conditions = [Condition(type="PodScheduled", status="True")]
    assert condition(after(vmi, planned(vmi, pod)).status.conditions, "PodScheduled") is None


@pytest.mark.parametrize(
    ("phase", "deleting", "reason"),
    [("Failed", False, "PodFailed"), ("Succeeded", False, "PodSucceeded"), ("Running", True, "PodTerminating")],
)
def test_a_pod_that_ends_before_the_hand_over_fails_the_vmi(phase, deleting, reason):
    vmi, pod = a_vmi("Scheduling"), a_pod(a_vmi(), phase, "node-7")
    if deleting:
        pod.metadata.deletion_timestamp = rfc3339(NOW)
    status = after(vmi, planned(vmi, pod)).status
    assert (status.phase, status.reason) == ("Failed", reason)


def test_a_pod_that_was_lost_before_the_hand_over_is_looked_for_and_never_made_anew():
    plan = planned(a_vmi("Scheduling"))
    assert kinds(plan) == ["ConfirmPodLost", "PatchVmi"]
    assert after(a_vmi("Scheduling"), plan).status.phase == "Failed"


@pytest.mark.parametrize("phase", ["Scheduled", "Running", "Unknown"])
def test_no_second_pod_is_made_once_the_vmi_was_handed_over(phase):
    for podless in (0.0, 1000.0):
        assert not any(isinstance(action, CreatePod) for action in planned(a_vmi(phase), podless=podless).actions)


def test_a_lost_pod_fails_the_vmi_after_the_handler_had_its_chance():
    vmi = a_vmi("Running")
    assert planned(vmi, podless=1.0) == VmiPlan(again_after=LOST_SECONDS - 1)
    plan = planned(vmi, podless=LOST_SECONDS)
    assert kinds(plan) == ["ConfirmPodLost", "PatchVmi"]
    status = after(vmi, plan).status
    assert (status.phase, status.reason) == ("Failed", "PodLost")


@pytest.mark.parametrize(("pod_phase", "phase"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
def test_a_launcher_that_ended_tells_how_when_the_handler_does_not(pod_phase, phase):
    vmi = a_vmi("Running")
    pod = a_pod(vmi, pod_phase, "node-1")
    assert planned(vmi, pod).again_after == ENDED_SECONDS
    assert after(vmi, planned(vmi, pod, podless=ENDED_SECONDS)).status.phase == phase


def test_a_running_vmi_is_ready_when_its_pod_is():
    vmi = a_vmi("Running")
    pod = gated(a_pod(vmi, "Running", "node-1"))
    vmi = after(vmi, planned(vmi, pod))
    ready = condition(vmi.status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "True"
    assert planned(vmi, pod) == VmiPlan()


def test_a_guest_whose_readiness_probe_fails_is_not_ready_in_the_words_of_its_pod():
    vmi = a_vmi("Running")
    pod = gated(a_pod(vmi, "Running", "node-1"))
    words = "containers with unready status: [compute]"
    pod.status.conditions[0] = Condition(type="Ready", status="False", reason="ContainersNotReady", message=words)
    made = after(vmi, planned(vmi, pod))
    ready = condition(made.status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("False", "ContainersNotReady", words)
    assert made.status.phase == "Running"


def test_after_the_hand_over_nothing_but_conditions_is_written():
    vmi = a_vmi("Running")
    vmi.status.active_pods = {POD_UID: "node-1"}
    plan = planned(vmi, gated(a_pod(vmi, "Running", "node-1")))
    (patch,) = [action for action in plan.actions if isinstance(action, PatchVmi)]
    assert set(patch.body) == {"status"}
    assert set(patch.body["status"]) == {"conditions"}


def test_conditions_of_the_handler_are_kept():
    vmi = a_vmi("Running")
    vmi.status.conditions = [Condition(type="AgentConnected", status="True")]
    made = after(vmi, planned(vmi, gated(a_pod(vmi, "Running", "node-1"))))
    assert [item.type for item in made.status.conditions] == ["AgentConnected", "Ready"]


@pytest.mark.parametrize(("paused", "status", "reason"), [(True, "False", "Paused"), (False, "True", "NotPaused")])
def test_the_readiness_gate_of_the_pod_follows_the_pause(paused, status, reason):
    vmi = a_vmi("Running")
    if paused:
        vmi.status.conditions = [Condition(type="Paused", status="True", reason="PausedByUser")]
    (gate,) = [a for a in planned(vmi, a_pod(vmi, "Running", "node-1")).actions if isinstance(a, PatchPodStatus)]
    (item,) = gate.body["status"]["conditions"]
    assert (item["type"], item["status"], item["reason"]) == (UNPAUSED_GATE, status, reason)
    again = planned(vmi, gated(a_pod(vmi, "Running", "node-1"), status, reason))
    assert not any(isinstance(action, PatchPodStatus) for action in again.actions)


def test_a_deleted_vmi_ends_its_pod_gracefully_and_waits():
    vmi = a_vmi("Running", deleting=True)
    pod = gated(a_pod(vmi, "Running", "node-1"))
    plan = planned(vmi, pod)
    assert DeletePod(pod) in plan.actions
    pod.metadata.deletion_timestamp = rfc3339(NOW)
    vmi = after(vmi, planned(vmi, pod))
    assert planned(vmi, pod) == VmiPlan()
    ready = condition(vmi.status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "PodTerminating"
    assert VMI_FINALIZER in vmi.metadata.finalizers


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_a_vmi_deleted_before_it_had_a_pod_fails_and_goes(phase):
    vmi = a_vmi(phase, deleting=True)
    plan = planned(vmi)
    assert kinds(plan) == ["ConfirmPodLost", "PatchVmi"]
    made = after(vmi, plan)
    assert made.status.phase == "Failed"
    assert made.metadata.finalizers == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_final_vmi_goes_only_when_its_pods_are_gone(phase):
    vmi = a_vmi(phase, deleting=True)
    pod = a_pod(vmi, "Succeeded", "node-1")
    assert planned(vmi, pod).actions == (DeletePod(pod),)
    plan = planned(vmi)
    assert plan.actions == (ConfirmPodLost(), PatchVmi({"metadata": {"finalizers": []}}))


def test_the_vm_controllers_finalizer_is_left_to_it_while_there_is_a_vm():
    owned = a_vmi("Failed", deleting=True, owner=a_vm())
    assert after(owned, planned(owned)).metadata.finalizers == [VM_FINALIZER]
    orphan = a_vmi("Failed", deleting=True)
    orphan.metadata.finalizers = [VMI_FINALIZER, VM_FINALIZER]
    assert after(orphan, planned(orphan)).metadata.finalizers == []


def test_a_final_vmi_that_nobody_deletes_keeps_its_pod_for_its_logs():
    vmi = a_vmi("Failed")
    pod = a_pod(vmi, "Failed", "node-1")
    vmi = after(vmi, planned(vmi, pod))
    assert planned(vmi, pod) == VmiPlan()


def test_a_pod_that_could_not_be_created_is_a_condition_and_an_event():
    vmi = a_vmi("")
    plan = plan_create_failure(vmi, "Error creating pod: quota exceeded", CONFIG, NOW)
    made = after(vmi, plan)
    found = condition(made.status.conditions, "Synchronized")
    assert found is not None
    assert (found.reason, found.message) == ("FailedCreate", "Error creating pod: quota exceeded")
    assert made.status.phase == "Pending"
    ready = condition(made.status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "PodNotExists"
    assert plan_create_failure(made, "Error creating pod: quota exceeded", CONFIG, NOW).actions == ()
    cleared = after(made, planned(made, a_pod(made)))
    assert condition(cleared.status.conditions, "Synchronized") is None


def test_planning_changes_nothing_of_what_it_was_given():
    vmi = a_vmi("Scheduling")
    pod = a_pod(vmi, "Running", "node-7")
    before = msgspec.json.encode(vmi), msgspec.json.encode(pod)
    planned(vmi, pod)
    assert (msgspec.json.encode(vmi), msgspec.json.encode(pod)) == before
