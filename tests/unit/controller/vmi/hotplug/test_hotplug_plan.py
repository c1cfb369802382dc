"""Phases, reasons and messages of hotplugged volumes, and when their Pods come and go."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kvedge.controller.vmi.hotplug.attachment_pod_manifest import attachment_pod, attachment_pod_name
from kvedge.controller.vmi.hotplug.hotplug_plan import (
    CreateAttachment,
    DeleteAttachment,
    HotplugView,
    PatchStatus,
    plan_hotplug,
)
from kvedge.resources.codec import decode
from kvedge.resources.meta import Condition, OwnerReference
from kvedge.resources.types.core import Capabilities, Container, Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import ClaimInfo, HotplugVolumeStatus, VirtualMachineInstance, VolumeStatus
from tests.support.builders import a_claim, ended, owned_by
from tests.unit.controller.vmi.hotplug.hotplug_world import a_launcher, a_running_vmi, a_volume, running_container

LOST_REMEDY = "restore its PersistentVolume, or remove the volume and add another claim"
NAME = attachment_pod_name(a_running_vmi(), "data", "data")


def view(
    vmi: VirtualMachineInstance, *pods: Pod, claims: Mapping[str, PersistentVolumeClaim] | None = None
) -> HotplugView:
    return HotplugView(vmi, a_launcher(vmi), pods, {"data": a_claim("data")} if claims is None else claims)


def held(phase: str, uid: str = "pod-1") -> VirtualMachineInstance:
    """A VMI whose volume was taken from the spec in this phase."""
    vmi = a_running_vmi()
    attachment = HotplugVolumeStatus(attach_pod_name=NAME, attach_pod_uid=uid)
    vmi.status.volume_status = [VolumeStatus(name="data", target="sda", phase=phase, hotplug_volume=attachment)]
    return vmi


def a_ready_pod(vmi: VirtualMachineInstance) -> Pod:
    pod = attachment_pod(vmi, "data", a_claim("data"), a_launcher(vmi))
    pod.metadata.uid = "pod-1"
    pod.status.phase = "Running"
    pod.status.container_statuses = [running_container("hotplug-disk")]
    return pod


def entry_of(seen: HotplugView) -> dict[str, object]:
    """The volume's entry as it is written; the only one."""
    patch = next(action for action in plan_hotplug(seen) if isinstance(action, PatchStatus))
    (entry,) = patch.body["status"]["volumeStatus"]
    assert isinstance(entry, dict)
    return entry


@pytest.mark.parametrize(
    ("claims", "phase", "reason", "message"),
    [
        ({}, "Pending", "FailedPvcNotFound", "PVC data not found; create it, and it is attached by itself"),
        ({"data": a_claim("data", "Lost")}, "Pending", "PVCNotReady", f"PVC is in phase Lost; {LOST_REMEDY}"),
        ({"data": a_claim("data", "Pending")}, "Pending", "PVCNotReady", "PVC is in phase ClaimPending"),
        ({"data": a_claim("data")}, "Bound", "PVCNotReady", "PVC is in phase Bound"),
    ],
    ids=["no claim", "a lost one", "one that waits", "a bound one"],
)
def test_a_volume_without_a_pod_says_what_its_claim_is(
    claims: dict[str, PersistentVolumeClaim], phase: str, reason: str, message: str
) -> None:
    entry = entry_of(view(a_running_vmi(a_volume("data")), claims=claims))
    assert (entry["phase"], entry["reason"], entry["message"]) == (phase, reason, message)


def test_a_missing_claim_holds_up_no_other_volume() -> None:
    vmi = a_running_vmi(a_volume("lost"), a_volume("data"))
    created = [action.volume for action in plan_hotplug(view(vmi)) if isinstance(action, CreateAttachment)]
    assert created == ["data"]


def test_the_pod_is_told_when_it_is_there_and_its_uid_when_it_is_ready() -> None:
    vmi = a_running_vmi(a_volume("data"))
    pod = a_ready_pod(vmi)
    entry = entry_of(view(vmi, pod))
    assert (entry["phase"], entry["reason"]) == ("AttachedToNode", "SuccessfulCreate")
    assert entry["message"] == f"Created hotplug attachment pod {NAME}, for volume data"
    assert entry["hotplugVolume"] == {"attachPodName": NAME, "attachPodUID": "pod-1"}
    pod.status.phase = "Pending"
    assert entry_of(view(vmi, pod))["hotplugVolume"] == {"attachPodName": NAME}


def _changed(pod: Pod, kind: str) -> None:
    (container,) = pod.spec.containers
    context = container.security_context
    assert context is not None
    assert context.capabilities is not None
    match kind:
        case "image":
            container.image = "somebody/else"
        case "command":
            container.command = ["sh", "-c", "mknod"]
        case "arguments":
            container.args = ["more"]
        case "second container":
            pod.spec.containers = [container, Container(name="more")]
        case "init container":
            pod.spec.init_containers = [Container(name="first")]
        case "right":
            context.capabilities = Capabilities(add=["MKNOD"], drop=["ALL"])
        case "rights kept":
            context.capabilities = Capabilities()
        case "privileged":
            context.privileged = True
        case "no security context":
            container.security_context = None
        case "user":
            context.run_as_user = 0
        case "claim":
            pod.spec.volumes = attachment_pod(
                a_running_vmi(), "data", a_claim("other"), a_launcher(a_running_vmi())
            ).spec.volumes
        case "place":
            container.volume_mounts = container.volume_mounts[:-1]


@pytest.mark.parametrize(
    "kind",
    [
        "image",
        "command",
        "arguments",
        "second container",
        "init container",
        "right",
        "rights kept",
        "privileged",
        "no security context",
        "user",
        "claim",
        "place",
    ],
)
def test_a_pod_of_that_name_that_somebody_else_made_is_never_given_to_the_handler(kind: str) -> None:
    vmi = a_running_vmi(a_volume("data"))
    pod = a_ready_pod(vmi)
    _changed(pod, kind)
    entry = entry_of(view(vmi, pod))
    assert "attachPodUID" not in str(entry)
    assert (entry["phase"], entry["reason"]) == ("Bound", "FailedCreate")
    assert entry["message"] == f"Pod {NAME} is not the one that kvedge makes for volume data: delete it"


@pytest.mark.parametrize(("known", "given"), [("pod-1", True), ("pod-0", False)], ids=["known", "new"])
def test_a_held_volume_whose_claim_is_gone_gets_no_new_pod(known: str, given: bool) -> None:
    vmi = a_running_vmi(a_volume("data"))
    vmi.status.volume_status = held("Ready", known).status.volume_status
    pod = a_ready_pod(vmi)
    patches = [action for action in plan_hotplug(view(vmi, pod, claims={})) if isinstance(action, PatchStatus)]
    if given:
        assert patches == []
    else:
        assert entry_of(view(vmi, pod, claims={}))["hotplugVolume"] == {"attachPodName": NAME}


def test_what_an_api_server_adds_to_our_pod_makes_it_no_stranger() -> None:
    vmi = a_running_vmi(a_volume("data"))
    pod = a_ready_pod(vmi)
    pod.spec.node_name, pod.spec.dns_policy, pod.spec.scheduler_name = "node-1", "ClusterFirst", "default-scheduler"
    pod.spec.service_account_name = "default"
    pod.spec.tolerations = [*pod.spec.tolerations, {"key": "more", "operator": "Exists"}]
    pod.spec.containers[0].termination_message_path = "/dev/termination-log"
    assert entry_of(view(vmi, pod))["hotplugVolume"] == {"attachPodName": NAME, "attachPodUID": "pod-1"}


def test_what_the_handler_says_of_an_attached_volume_is_left_alone() -> None:
    vmi = held("AttachedToNode")
    vmi.spec.volumes = [a_volume("data")]
    vmi.status.volume_status[0].reason = "HotplugFailed"
    assert entry_of(view(vmi, a_ready_pod(vmi)))["reason"] == "HotplugFailed"


def test_a_claim_that_is_being_filled_is_not_handed_out() -> None:
    seen = view(a_running_vmi(a_volume("data")), claims={"data": a_data_volumes_claim("Bound")})
    assert not [action for action in plan_hotplug(seen) if isinstance(action, CreateAttachment)]


def a_data_volumes_claim(phase: str) -> PersistentVolumeClaim:
    """One that nobody has filled yet."""
    claim = a_claim("data", phase)
    claim.metadata.owner_references = [decode(OwnerReference, owned_by("DataVolume", "data", "dv-1"))]
    return claim


def test_a_claim_that_waits_for_its_first_consumer_gets_it_and_is_left_to_who_fills_it_once_it_is_bound() -> None:
    vmi = a_running_vmi(a_volume("data"))
    waiting = view(vmi, claims={"data": a_data_volumes_claim("Pending")})
    assert [action.volume for action in plan_hotplug(waiting) if isinstance(action, CreateAttachment)] == ["data"]
    filling = view(vmi, a_ready_pod(vmi), claims={"data": a_data_volumes_claim("Bound")})
    deleted = [action for action in plan_hotplug(filling) if isinstance(action, DeleteAttachment)]
    assert [(action.pod.metadata.name, action.volume) for action in deleted] == [(NAME, "data")]


@pytest.mark.parametrize("phase", ["Ready", "MountedToPod"])
def test_a_pod_whose_volume_the_guest_has_stays_whatever_is_said_of_its_claim(phase: str) -> None:
    vmi = held(phase)
    vmi.spec.volumes = [a_volume("data")]
    seen = view(vmi, a_ready_pod(vmi), claims={"data": a_data_volumes_claim("Bound")})
    assert not [action for action in plan_hotplug(seen) if isinstance(action, DeleteAttachment)]


NO_NODE = "0/2 nodes are available: 1 node(s) had volume node affinity conflict."


@pytest.mark.parametrize(("claim", "phase"), [("Bound", "AttachedToNode"), ("Pending", "Pending")])
def test_a_pod_that_cannot_run_on_the_node_says_why_until_it_does(claim: str, phase: str) -> None:
    vmi = a_running_vmi(a_volume("data"))
    pod = attachment_pod(vmi, "data", a_claim("data"), a_launcher(vmi))
    pod.status.conditions = [Condition(type="PodScheduled", status="False", reason="Unschedulable", message=NO_NODE)]
    claims = {"data": a_claim("data", claim)}
    entry = entry_of(view(vmi, pod, claims=claims))
    assert (entry["phase"], entry["reason"]) == (phase, "Unschedulable")
    remedy = " PVC data is not bound: its events say what it lacks" if claim == "Pending" else ""
    assert entry["message"] == f"Attachment pod {NAME} cannot run on the VM's node: {NO_NODE}{remedy}"
    vmi.status.volume_status = [decode(VolumeStatus, entry)]
    assert not [action for action in plan_hotplug(view(vmi, pod, claims=claims)) if isinstance(action, PatchStatus)]
    assert entry_of(view(vmi, a_ready_pod(vmi)))["reason"] == "SuccessfulCreate"


def test_a_volume_stays_ready_while_its_pod_is_lost_and_made_again() -> None:
    vmi = held("Ready")
    vmi.spec.volumes = [a_volume("data")]
    assert entry_of(view(vmi))["phase"] == "Ready"
    assert [action.volume for action in plan_hotplug(view(vmi)) if isinstance(action, CreateAttachment)] == ["data"]


@pytest.mark.parametrize("phase", ["Ready", "MountedToPod", "AttachedToNode"])
def test_nothing_is_let_go_before_the_handler_says_that_it_is_unmounted(phase: str) -> None:
    assert plan_hotplug(view(held(phase), a_ready_pod(held(phase)))) == ()


@pytest.mark.parametrize(
    ("phase", "uid"),
    [("UnMountedFromPod", "pod-1"), ("AttachedToNode", ""), ("Bound", "")],
    ids=["unmounted", "never told of", "bound"],
)
def test_what_nobody_holds_is_detached(phase: str, uid: str) -> None:
    vmi = held(phase, uid)
    patch, deletion = plan_hotplug(view(vmi, a_ready_pod(vmi)))
    assert isinstance(patch, PatchStatus)
    assert patch.body["status"]["volumeStatus"][0]["phase"] == "Detaching"
    assert isinstance(deletion, DeleteAttachment)


def test_an_entry_goes_with_its_pod() -> None:
    vmi = held("Detaching")
    pod = a_ready_pod(vmi)
    pod.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
    entry = entry_of(view(vmi, pod))
    assert (entry["reason"], entry["message"]) == (
        "SuccessfulDelete",
        f"Deleted hotplug attachment pod {NAME}, for volume data",
    )
    (gone,) = plan_hotplug(view(vmi))
    assert isinstance(gone, PatchStatus)
    assert not gone.body["status"].get("volumeStatus")


def test_a_pod_that_was_refused_says_why_and_is_not_tried_at_once() -> None:
    vmi = a_running_vmi(a_volume("data"))
    text = "Error creating attachment pod: exceeded quota"
    seen = HotplugView(vmi, a_launcher(vmi), (), {"data": a_claim("data")}, {"data": text}, waiting=frozenset({"data"}))
    (patch,) = plan_hotplug(seen)
    assert isinstance(patch, PatchStatus)
    entry = patch.body["status"]["volumeStatus"][0]
    assert (entry["phase"], entry["reason"], entry["message"]) == ("Bound", "FailedCreate", text)


def test_nothing_is_attached_to_a_launcher_that_is_asked_to_end() -> None:
    vmi = a_running_vmi(a_volume("data"))
    launcher = a_launcher(vmi)
    launcher.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
    seen = HotplugView(vmi, launcher, (), {"data": a_claim("data")})
    assert not [action for action in plan_hotplug(seen) if isinstance(action, CreateAttachment)]


def test_all_pods_go_when_the_launcher_has_ended() -> None:
    vmi = held("Ready")
    launcher = a_launcher(vmi)
    launcher.status.container_statuses[0].state = ended("Failed")
    (deletion,) = plan_hotplug(HotplugView(vmi, launcher, (a_ready_pod(vmi),)))
    assert isinstance(deletion, DeleteAttachment)


def test_a_vmi_without_such_volumes_is_left_alone() -> None:
    assert plan_hotplug(view(a_running_vmi())) == ()


def test_a_name_that_the_guest_still_has_from_another_claim_is_left_until_it_is_free() -> None:
    vmi = held("Ready")
    vmi.spec.volumes = [a_volume("data")]
    vmi.status.volume_status[0].persistent_volume_claim_info = ClaimInfo(claim_name="other")
    old = a_ready_pod(vmi)
    actions = plan_hotplug(view(vmi, old))
    assert not [action for action in actions if isinstance(action, (PatchStatus, DeleteAttachment))]


@pytest.mark.parametrize(("claim", "phase"), [("Bound", "Bound"), ("Pending", "Pending")])
def test_a_claim_that_another_vm_has_is_waited_for_by_name_and_then_attached(claim: str, phase: str) -> None:
    vmi, other = a_running_vmi(a_volume("data")), a_running_vmi()
    other.metadata.name, other.status.node_name = "first", "node-7"
    seen = HotplugView(vmi, a_launcher(vmi), (), {"data": a_claim("data", claim)}, holders={"data": other})
    entry = entry_of(seen)
    assert (entry["phase"], entry["reason"]) == (phase, "PVCInUse")
    assert str(entry["message"]).startswith("PVC data of volume data is in use by VM first on node node-7")
    assert "it is attached by itself when first has ended or has detached it" in str(entry["message"])
    assert not [action for action in plan_hotplug(seen) if isinstance(action, CreateAttachment)]
    free = HotplugView(vmi, a_launcher(vmi), (), {"data": a_claim("data", claim)})
    assert [action.volume for action in plan_hotplug(free) if isinstance(action, CreateAttachment)] == ["data"]
