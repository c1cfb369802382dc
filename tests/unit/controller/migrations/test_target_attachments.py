# Tests: kvedge/controller/migrations/migration_plan.py, kvedge/controller/migrations/readiness.py
"""Hotplugged volumes of a guest that is to move: attachment Pods on the target's node, until the hand-over."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest

from kvedge.controller.migrations.migration_plan import plan_migration
from kvedge.controller.migrations.migration_view import (
    CreateAttachments,
    HandOver,
    MigrationPlan,
    MigrationView,
    PatchStatus,
    RequestAbort,
)
from kvedge.controller.migrations.readiness import explain_wait, is_ready_to_begin
from kvedge.controller.migrations.target_attachments import find_unsettled
from kvedge.controller.vmi.hotplug.attachment_pod_manifest import attachment_pod
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import (
    BackupOrder,
    ClaimInfo,
    DiskCopyRequest,
    HotplugVolumeStatus,
    VirtualMachineInstance,
    VolumeStatus,
)
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, POD_UID, a_claim, a_pod
from tests.support.migrating import a_migrating_vmi, a_migration, a_target_pod
from tests.unit.controller.vmi.hotplug.hotplug_world import a_running_vmi, a_volume, running_container

CAN = Condition(type="LiveMigratable", status="True")
CLAIMS = {name: a_claim(name, access_modes=["ReadWriteMany"]) for name in ("data", "logs")}


def an_entry(name: str, phase: str = "Ready", claim: str = "") -> VolumeStatus:
    attachment = HotplugVolumeStatus(attach_pod_name=f"hp-{name}", attach_pod_uid=f"uid-of-hp-{name}")
    info = ClaimInfo(claim_name=claim or name)
    return VolumeStatus(
        name=name, target="sda", phase=phase, hotplug_volume=attachment, persistent_volume_claim_info=info
    )


def a_guest(*names: str, entries: list[VolumeStatus] | None = None) -> VirtualMachineInstance:
    vmi = a_running_vmi(*map(a_volume, names))
    vmi.status.active_pods = {POD_UID: "node-1"}
    vmi.status.conditions = [CAN]
    vmi.status.volume_status = [an_entry(name) for name in names] if entries is None else entries
    return vmi


def attachments(vmi: VirtualMachineInstance, *names: str, phase: str = "Running") -> list[Pod]:
    made = []
    for name in names:
        pod = copy.deepcopy(attachment_pod(vmi, name, CLAIMS[name], a_target_pod(vmi)))
        pod.metadata.uid, pod.status.phase = f"uid-of-new-{name}", phase
        pod.metadata.creation_timestamp = rfc3339(NOW)
        pod.status.container_statuses = [running_container("hotplug-disk")] if phase == "Running" else []
        made.append(pod)
    return made


def planned(
    phase: Any,
    vmi: VirtualMachineInstance,
    pods: list[Pod],
    age: int = 0,
    claims: dict[str, PersistentVolumeClaim] | None = None,
) -> MigrationPlan:
    target = a_target_pod(vmi)
    target.metadata.creation_timestamp = rfc3339(NOW - timedelta(seconds=age))
    given = CLAIMS if claims is None else claims
    there = [a_pod(vmi, "Running", "node-1"), target]
    return plan_migration(MigrationView(a_migration(phase), vmi, there, attachments=pods, claims=given), NOW)


def written(plan: MigrationPlan) -> Any:
    (found,) = [action.status for action in plan.actions if isinstance(action, PatchStatus)]
    return found


@pytest.mark.parametrize("phase", ["Scheduling", "Scheduled"])
def test_each_volume_that_the_guest_has_gets_a_pod_on_the_target_s_node_before_the_hand_over(phase):
    vmi = a_guest("data", "logs")
    (create,) = planned(phase, vmi, attachments(vmi, "logs")).actions
    assert isinstance(create, CreateAttachments)
    (pod,) = create.pods
    (owner,) = pod.metadata.owner_references
    assert owner.uid == a_target_pod(vmi).metadata.uid
    assert "node-2" in str(pod.spec.affinity)
    assert pod.metadata.name == attachments(vmi, "data")[0].metadata.name
    source = attachment_pod(vmi, "data", CLAIMS["data"], a_pod(vmi, "Running", "node-1"))
    assert pod.metadata.name != source.metadata.name


def test_the_target_is_not_handed_over_before_all_of_them_are_ready():
    vmi = a_guest("data", "logs")
    waiting = planned("Scheduling", vmi, [*attachments(vmi, "data"), *attachments(vmi, "logs", phase="Pending")])
    name = attachments(vmi, "logs")[0].metadata.name
    found = condition(written(waiting).conditions, "migrationWaiting")
    assert found is not None
    assert found.message == f"hotplugged volume logs: pod {name} is not ready on the target's node"
    assert [told.message for told in waiting.told] == [found.message]
    assert waiting.again_after == 300.0
    ready = attachments(vmi, "data", "logs")
    assert written(planned("Scheduling", vmi, ready)).phase == "Scheduled"
    (handed,) = planned("Scheduled", vmi, ready).actions
    assert isinstance(handed, HandOver)
    assert handed.state.target_attachment_pods == {"data": "uid-of-new-data", "logs": "uid-of-new-logs"}
    assert handed.state.target_attachment_pod_uid == "uid-of-new-data"


def test_a_volume_that_comes_while_the_target_starts_moves_too():
    before = a_guest("data")
    ready = attachments(before, "data")
    comes = a_guest("data", "logs", entries=[an_entry("data"), an_entry("logs", "MountedToPod")])
    waiting = planned("Scheduled", comes, ready)
    found = condition(written(waiting).conditions, "migrationWaiting")
    assert found is not None
    assert found.message == "hotplugged volume logs has not come to the guest yet: MountedToPod"
    (create,) = planned("Scheduled", a_guest("data", "logs"), ready).actions
    assert isinstance(create, CreateAttachments)


@pytest.mark.parametrize("phase", ["", "Pending", "Bound"])
def test_a_volume_that_has_not_begun_to_come_is_left_for_later(phase):
    vmi = a_guest("data", "logs", entries=[an_entry("data"), an_entry("logs", phase)])
    (handed,) = planned("Scheduled", vmi, attachments(vmi, "data")).actions
    assert isinstance(handed, HandOver)
    assert handed.state.target_attachment_pods == {"data": "uid-of-new-data"}


def test_a_volume_that_has_left_the_guest_holds_up_nothing():
    vmi = a_guest(entries=[an_entry("data", "UnMountedFromPod"), an_entry("logs", "Detaching")])
    (handed,) = planned("Scheduled", vmi, attachments(vmi, "data")).actions
    assert isinstance(handed, HandOver)
    assert handed.state.target_attachment_pods == {}
    assert handed.state.target_attachment_pod_uid == ""


def a_copied_guest(backup: BackupOrder | None = None) -> VirtualMachineInstance:
    vmi = a_guest()
    vmi.status.disk_copy = DiskCopyRequest(name="snap", backup=backup)
    return vmi


@pytest.mark.parametrize(
    ("vmi", "said"),
    [
        (a_guest(entries=[an_entry("data")]), "data has not left the guest yet: Ready"),
        (a_guest("data", entries=[an_entry("data", claim="old")]), "data has not left the guest yet: Ready"),
        (a_guest("data", entries=[an_entry("data", "AttachedToNode")]), "data has not come to the guest yet"),
        (a_copied_guest(), "Waiting for backup snap to complete"),
        (
            a_copied_guest(BackupOrder(target="t", directory="d", prefix="daily")),
            "Waiting for backup daily to complete",
        ),
    ],
    ids=["it was removed", "another claim came", "it is on the node", "its disks are copied", "they are backed up"],
)
def test_a_guest_whose_volumes_just_change_does_not_begin_to_move(vmi, said):
    assert said in find_unsettled(vmi)
    view = MigrationView(a_migration(), vmi, [a_pod(vmi, "Running", "node-1")])
    assert not is_ready_to_begin(view)
    told = explain_wait(view)
    assert told is not None
    assert said in told.message
    given_up = planned("Scheduled", vmi, [], age=900)
    assert written(given_up).phase == "Failed"
    assert "the guest was not ready to move within 900 s" in given_up.told[0].message


def test_a_pod_that_ends_fails_a_migration_that_is_not_handed_over():
    vmi = a_guest("data")
    plan = planned("Scheduling", vmi, attachments(vmi, "data", phase="Failed"))
    assert [type(action).__name__ for action in plan.actions] == ["ConfirmFree", "PatchStatus", "DeleteTarget"]
    assert plan.told[0].message.startswith("Migration failed because target attachment pod shutdown during migration")


def test_a_pod_that_another_maker_has_put_in_its_place_is_not_handed_over():
    vmi = a_guest("data")
    (pod,) = attachments(vmi, "data")
    pod.spec.containers[0].command = ["/bin/sh"]
    assert written(planned("Scheduled", vmi, [pod])).phase == "Failed"


def test_a_claim_that_is_not_found_and_a_pod_that_nobody_lets_be_made_are_given_up_in_time():
    vmi = a_guest("data")
    assert written(planned("Scheduling", vmi, [], claims={})).phase == "Scheduling"
    for claims in ({}, None):
        plan = planned("Scheduling", vmi, [], age=900, claims=claims)
        assert written(plan).phase == "Failed"


@pytest.mark.parametrize("phase", ["PreparingTarget", "Running"])
def test_a_pod_that_ends_after_the_hand_over_has_the_source_asked(phase):
    start = rfc3339(NOW) if phase == "Running" else None
    vmi = a_migrating_vmi(start_timestamp=start, target_attachment_pods={"data": "uid-of-new-data"})
    assert planned(phase, vmi, attachments(vmi, "data")).actions == ()
    for left in ([], attachments(vmi, "data", phase="Failed")):
        plan = planned(phase, vmi, left)
        assert plan.actions == (RequestAbort(),)
        assert plan.told[0].message.endswith("that of volume data")
