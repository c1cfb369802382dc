# Tests: kvedge/controller/vmi/hotplug/hotplug_plan.py, kvedge/controller/vmi/launcher_pods.py
"""Hotplugged volumes of a guest that moves: which Pod holds a volume before, on the way and after."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vmi.hotplug.attachment_pod_manifest import attachment_pod, attachment_pod_name
from kvedge.controller.vmi.hotplug.hotplug_plan import (
    CreateAttachment,
    DeleteAttachment,
    HotplugView,
    PatchStatus,
    plan_hotplug,
)
from kvedge.controller.vmi.launcher_pods import launcher_of, list_over
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import HotplugVolumeStatus, VirtualMachineInstance, VolumeStatus
from tests.support.builders import a_claim, a_pod, ended
from tests.support.migrating import a_migrating_vmi, a_target_pod
from tests.unit.controller.vmi.hotplug.hotplug_world import a_volume, running_container

CLAIM = a_claim("data", access_modes=["ReadWriteMany"])


def moving(**state: Any) -> VirtualMachineInstance:
    """A guest with one volume, as it was when it was handed over."""
    vmi = a_migrating_vmi(**state)
    vmi.spec.volumes = [a_volume("data")]
    old = attachment(vmi, source(vmi), "old")
    at = HotplugVolumeStatus(attach_pod_name=old.metadata.name, attach_pod_uid="old")
    vmi.status.volume_status = [VolumeStatus(name="data", target="sda", phase="Ready", hotplug_volume=at)]
    return vmi


def source(vmi: VirtualMachineInstance, *, over: bool = False) -> Pod:
    return running(a_pod(vmi, "Running", "node-1"), over=over)


def target(vmi: VirtualMachineInstance, *, over: bool = False) -> Pod:
    return running(a_target_pod(vmi), over=over)


def running(pod: Pod, *, over: bool) -> Pod:
    status = running_container("compute")
    if over:
        status.state = ended("Succeeded")
        pod.status.phase = "Succeeded"
    pod.status.container_statuses = [status]
    return pod


def attachment(vmi: VirtualMachineInstance, launcher: Pod, uid: str) -> Pod:
    pod = attachment_pod(vmi, "data", CLAIM, launcher)
    pod.metadata.uid, pod.status.phase = uid, "Running"
    pod.status.container_statuses = [running_container("hotplug-disk")]
    return pod


def view(vmi: VirtualMachineInstance, old: Pod, new: Pod) -> HotplugView:
    """As the loop makes it of two launchers, each with its attachment Pod."""
    launcher = launcher_of(vmi, [old, new])
    held = {old.metadata.uid: attachment(vmi, old, "old"), new.metadata.uid: attachment(vmi, new, "new")}
    assert launcher is not None
    left = [held[pod.metadata.uid] for pod in list_over(vmi, launcher, [old, new])]
    return HotplugView(vmi, launcher, (held[launcher.metadata.uid],), {"data": CLAIM}, left=left)


def deleted(view: HotplugView) -> list[str]:
    actions = plan_hotplug(view)
    assert not [action for action in actions if isinstance(action, CreateAttachment)]
    return [action.pod.metadata.uid for action in actions if isinstance(action, DeleteAttachment)]


def test_the_pods_of_two_launchers_have_two_names():
    vmi = a_migrating_vmi()
    first, here, there = (
        attachment_pod_name(vmi, "data", "data", launcher) for launcher in (None, source(vmi), target(vmi))
    )
    assert first == here != there


@pytest.mark.parametrize("over", [False, True], ids=["the source lives", "the source has ended"])
def test_nothing_comes_or_goes_while_it_is_open_where_the_guest_is(over):
    vmi = moving()
    vmi.spec.volumes = []
    assert plan_hotplug(view(vmi, source(vmi, over=over), target(vmi))) == ()


def test_a_guest_that_has_moved_has_its_volume_by_the_other_pod_and_the_old_one_goes_once_its_launcher_has_ended():
    vmi = moving(completed=True)
    lives = view(vmi, source(vmi), target(vmi))
    (patch,) = (action for action in plan_hotplug(lives) if isinstance(action, PatchStatus))
    (entry,) = patch.body["status"]["volumeStatus"]
    name = attachment_pod_name(vmi, "data", "data", target(vmi))
    assert entry["hotplugVolume"] == {"attachPodName": name, "attachPodUID": "new"}
    assert entry["phase"] == "Ready"
    assert deleted(lives) == []
    assert deleted(view(vmi, source(vmi, over=True), target(vmi))) == ["old"]


def test_a_launcher_of_which_nobody_says_that_it_ended_keeps_its_claims():
    vmi = moving(completed=True)
    old = source(vmi)
    old.status.phase = "Failed"
    assert deleted(view(vmi, old, target(vmi))) == []


def test_a_guest_that_stayed_keeps_its_pod_and_that_of_the_target_goes_once_its_launcher_has_ended():
    vmi = moving(completed=True, failed=True)
    assert deleted(view(vmi, source(vmi), target(vmi))) == []
    over = view(vmi, source(vmi), target(vmi, over=True))
    assert deleted(over) == ["new"]


def test_a_volume_that_is_unplugged_after_the_move_frees_the_pod_of_the_target_alone():
    vmi = moving(completed=True)
    vmi.spec.volumes = []
    name = attachment_pod_name(vmi, "data", "data", target(vmi))
    (entry,) = vmi.status.volume_status
    entry.hotplug_volume = HotplugVolumeStatus(attach_pod_name=name, attach_pod_uid="new")
    assert deleted(view(vmi, source(vmi), target(vmi))) == []
    entry.phase = "UnMountedFromPod"
    assert deleted(view(vmi, source(vmi), target(vmi))) == ["new"]


def test_a_run_that_is_over_on_its_way_frees_the_claims_of_both():
    vmi = moving(completed=True, failed=True)
    vmi.status.phase = "Failed"
    assert deleted(view(vmi, source(vmi, over=True), target(vmi, over=True))) == ["old", "new"]
