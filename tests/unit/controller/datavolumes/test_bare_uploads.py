"""Claims that `image-upload pvc` marks: filled by the worker of a DataVolume's upload, which belongs to the claim."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.datavolumes.bare_uploads import as_its_claim, claim_plan, upload_into, user_of
from kvedge.controller.datavolumes.data_volume_plan import (
    plan_data_volume,
)
from kvedge.controller.datavolumes.data_volume_view import (
    CreateWorker,
    DataVolumePlan,
    DataVolumeView,
    DeleteWorker,
    PatchClaim,
)
from kvedge.resources import data_volume_names as names
from kvedge.resources.codec import decode
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi
from tests.support.values import replace
from tests.unit.controller.datavolumes.test_data_volume_plan import (
    CLUSTER,
    NOW,
    STORAGE,
    ended,
    job_of,
    only,
    worker,
)


def claim(phase: str = "Bound", owners: Any = (), spec: Any = None, **annotations: str) -> PersistentVolumeClaim:
    return decode(
        PersistentVolumeClaim,
        {
            "metadata": {
                "name": "disk",
                "namespace": "ns",
                "uid": "claim-uid",
                "annotations": {names.UPLOAD_TARGET: "", **annotations},
                "ownerReferences": list(owners),
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                "resources": {"requests": {"storage": "1Gi"}},
                **(spec or {}),
            },
            "status": {"phase": phase},
        },
    )


def plan_of(found: PersistentVolumeClaim, *workers: Pod, user: str = "") -> DataVolumePlan:
    dv = upload_into(found)
    assert dv is not None
    view = DataVolumeView(dv, as_its_claim(found, dv), workers=workers, storage=STORAGE)
    return claim_plan(plan_data_volume(view, CLUSTER, NOW), found, user)


def test_a_marked_claim_gets_a_worker_that_takes_an_upload_and_belongs_to_it() -> None:
    plan = plan_of(claim())
    made = only(plan, CreateWorker)
    (owner,) = made.pod.metadata.owner_references
    assert (made.upload, made.pod.metadata.name) == (True, "cdi-upload-disk")
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("PersistentVolumeClaim", "disk", "claim-uid", True)
    # What the file system may take is the claim's own: the disk is smaller.
    assert job_of(made.pod)["size"] == 962 << 20
    assert [type(action) for action in plan.actions] == [CreateWorker], "no status of a DataVolume that is not there"


@pytest.mark.parametrize(
    ("annotations", "worker_is_made"),
    [({}, False), ({names.BIND_IMMEDIATELY: ""}, True)],
    ids=["it waits for a consumer", "unless it is to be bound at once"],
)
def test_a_claim_that_is_not_bound_waits(annotations: dict[str, str], worker_is_made: bool) -> None:
    plan = plan_of(claim("Pending", **annotations))
    assert any(isinstance(action, CreateWorker) for action in plan.actions) == worker_is_made


def test_a_claim_is_told_ready_and_then_filled() -> None:
    ready = worker("Running", {"running": {}}, conditions=[{"type": "Ready", "status": "True"}])
    patch = only(plan_of(claim(), ready), PatchClaim).body["metadata"]["annotations"]
    assert (patch[names.POD_PHASE], patch[names.POD_READY]) == ("Running", "true")
    done = ended("Succeeded", {"message": "Upload Complete"}, 0)
    patch = only(plan_of(claim(), done), PatchClaim).body["metadata"]["annotations"]
    assert (patch[names.POD_PHASE], patch[names.POD_READY]) == ("Succeeded", "false")
    assert only(plan_of(claim(**{names.POD_PHASE: "Succeeded"}), done), DeleteWorker).pod is done


def test_a_claim_that_a_guest_has_is_not_written_under_it() -> None:
    plan = plan_of(claim(), user="web")
    said = only(plan, PatchClaim).body["metadata"]["annotations"]
    assert said[names.RUNNING_REASON] == "UploadTargetInUse"
    assert "VM web has this claim" in said[names.RUNNING_MESSAGE]
    assert plan_of(claim(**said), user="web").actions == (), "it is told once"


def guest(name: str, phase: str, *entries: dict[str, Any], hotpluggable: bool = False) -> VirtualMachineInstance:
    document = small_vmi()
    document["metadata"]["name"] = name
    source = {"claimName": "disk", "hotpluggable": hotpluggable}
    document["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]
    return decode(VirtualMachineInstance, {**document, "status": {"phase": phase, "volumeStatus": list(entries)}})


def test_a_guest_that_waits_for_the_claim_does_not_have_it() -> None:
    assert user_of([guest("a", ""), guest("b", "Pending"), guest("c", "Succeeded")], "disk") == ""
    assert user_of([guest("a", "Pending"), guest("b", "Running"), guest("c", "Scheduled")], "disk") == "b"


@pytest.mark.parametrize(
    ("phase", "attachment", "user"),
    [
        pytest.param("Bound", None, "", id="no attachment"),
        pytest.param("Bound", {}, "", id="an attachment that was taken away"),
        pytest.param("AttachedToNode", {"attachPodName": "hp", "attachPodUID": "u"}, "web", id="attached"),
        pytest.param("Ready", {"attachPodName": "hp", "attachPodUID": "u"}, "web", id="in the guest"),
        pytest.param("Ready", {}, "web", id="in the guest, its Pod gone"),
    ],
)
def test_a_hotplugged_volume_has_its_claim_once_it_is_attached(
    phase: str, attachment: dict[str, str] | None, user: str
) -> None:
    info = {"claimName": "disk"}
    entry = {"name": "data", "target": "", "phase": phase, "persistentVolumeClaimInfo": info}
    if attachment is not None:
        entry["hotplugVolume"] = attachment
    assert user_of([guest("web", "Running", entry, hotpluggable=True)], "disk") == user
    assert user_of([guest("web", "Running", hotpluggable=True)], "disk") == "", "its status says nothing of it yet"


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(claim(owners=[{"apiVersion": "a/v1", "kind": "DataVolume", "name": "d", "uid": "u",
                                    "controller": True}]), id="a DataVolume's"),
        pytest.param(claim(spec={"dataSourceRef": {"kind": "X", "name": "x"}}), id="filled by somebody else"),
    ],
)  # fmt: skip
def test_other_claims_are_left_alone(found: PersistentVolumeClaim) -> None:
    assert upload_into(found) is None
    plain = claim()
    plain.metadata.annotations = {}
    assert upload_into(plain) is None


def test_an_archive_is_one_by_the_claim_s_own_word() -> None:
    plan = plan_of(claim(**{names.CONTENT_TYPE: "archive"}))
    assert job_of(only(plan, CreateWorker).pod)["archive"] is True
    assert replace(plan, told=()) == plan, "nobody is told of a DataVolume that is not there"
