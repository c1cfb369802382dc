# Tests: kvedge/controller/datavolumes/claim_plan.py, kvedge/controller/datavolumes/data_volume_status.py
# Tests: kvedge/controller/datavolumes/workers/worker_job_plan.py
# Tests: kvedge/controller/datavolumes/workers/worker_outcome.py
# Tests: kvedge/controller/datavolumes/workers/worker_pod_manifest.py
"""A DataVolume on its way from nothing to a filled claim, step by step, and what holds it up."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kvedge.controller.datavolumes.claim_plan import ClaimProblem, StorageSeen, plan_claim
from kvedge.controller.datavolumes.data_volume_plan import (
    plan_data_volume,
)
from kvedge.controller.datavolumes.data_volume_view import (
    Action,
    CreateClaim,
    CreateWorker,
    DataVolumePlan,
    DataVolumeView,
    DeleteWorker,
    LabelDataVolume,
    PatchClaim,
    PatchStatus,
    SourceSeen,
)
from kvedge.controller.datavolumes.worker_plan import (
    restart_wait,
)
from kvedge.controller.datavolumes.workers.worker_job_plan import poll_job
from kvedge.controller.datavolumes.workers.worker_outcome import look_at_worker
from kvedge.controller.datavolumes.workers.worker_pod_manifest import WorkerPlace, poll_pod, sender_pod
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.node_affinity import off_node, on_node
from kvedge.resources import data_volume_names as names
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import OwnerReference
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume, StorageProfile
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi
from tests.support.values import replace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 1 << 30
CLUSTER = ClusterConfig("1", ("kvedge",), ("/opt/kvedge",), "/caps", "amd64")
LATE = decode(
    StorageClass,
    {
        "metadata": {"name": "late", "annotations": {names.DEFAULT_CLASS: "true"}},
        "provisioner": "rancher.io/local-path",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
)
PROFILE = decode(
    StorageProfile,
    {
        "metadata": {"name": "late"},
        "spec": {},
        "status": {"claimPropertySets": [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]},
    },
)
STORAGE = StorageSeen([LATE], [PROFILE])


def data_volume(spec: dict[str, Any] | None = None, **metadata: Any) -> DataVolume:
    asked = {"resources": {"requests": {"storage": "1Gi"}}}
    document = {
        "metadata": {"name": "disk", "namespace": "ns", "uid": "dv-uid", **metadata},
        "spec": {"storage": asked, "source": {"blank": {}}, **(spec or {})},
    }
    return decode(DataVolume, document)


def claim_for(dv: DataVolume, phase: str = "Bound", **annotations: str) -> PersistentVolumeClaim:
    claim = plan_claim(dv, STORAGE, None)
    assert isinstance(claim, PersistentVolumeClaim)
    claim.metadata.uid = "claim-uid"
    claim.status.phase = phase
    claim.metadata.annotations |= annotations
    return claim


def worker(phase: str, state: dict[str, Any] | None = None, **status: Any) -> Pod:
    containers = [] if state is None else [
        {"name": "importer", "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": state}
    ]  # fmt: skip
    return decode(
        Pod,
        {
            "metadata": {"name": "importer-disk", "namespace": "ns", "uid": "pod-uid"},
            "spec": {},
            "status": {"phase": phase, "containerStatuses": containers, **status},
        },
    )


def ended(phase: str, outcome: dict[str, Any] | str, code: int = 1) -> Pod:
    message = outcome if isinstance(outcome, str) else json.dumps(outcome)
    terminated = {"exitCode": code, "reason": "Error", "message": message, "finishedAt": "2026-01-01T00:00:00Z"}
    return worker(phase, {"terminated": terminated})


def plan_of(view: DataVolumeView, now: datetime = NOW) -> DataVolumePlan:
    return plan_data_volume(view, CLUSTER, now)


def status_of(plan: DataVolumePlan) -> dict[str, Any]:
    body = next(action.body for action in plan.actions if isinstance(action, PatchStatus))
    found: dict[str, Any] = body["status"]
    return found


def condition_of(plan: DataVolumePlan, type_: str) -> tuple[str, str, str]:
    found = next(item for item in status_of(plan)["conditions"] if item["type"] == type_)
    return found["status"], found.get("reason", ""), found.get("message", "")


def only(plan: DataVolumePlan, kind: type[Action]) -> Any:
    (found,) = (action for action in plan.actions if isinstance(action, kind))
    return found


def test_a_claim_of_the_same_name_is_made_first() -> None:
    plan = plan_of(DataVolumeView(data_volume(), storage=STORAGE))
    claim = only(plan, CreateClaim).claim
    (owner,) = claim.metadata.owner_references
    assert (claim.metadata.name, owner.kind, owner.uid, owner.controller) == ("disk", "DataVolume", "dv-uid", True)
    assert claim.metadata.annotations[names.CONTENT_TYPE] == "kubevirt"
    assert claim.metadata.annotations[names.CREATED_FOR] == "dv-uid"
    assert claim.metadata.labels["alerts.k8s.io/KubePersistentVolumeFillingUp"] == "disabled"
    assert (claim.spec.access_modes, claim.spec.volume_mode) == (["ReadWriteOnce"], "Filesystem")
    assert (status_of(plan)["phase"], status_of(plan)["progress"]) == ("Pending", "N/A")


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        pytest.param({}, 1090 << 20, id="storage means the disk, and the claim is larger"),
        pytest.param(
            {"storage": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Block",
                         "accessModes": ["ReadWriteOnce"]}},
            GIB,
            id="a block claim needs no more",
        ),
        pytest.param(
            {"storage": None, "pvc": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": GIB}}}},
            GIB,
            id="pvc means the claim",
        ),
    ],
)  # fmt: skip
def test_a_claim_has_room_for_its_disk(spec: dict[str, Any], size: int) -> None:
    claim = plan_claim(data_volume(spec), STORAGE, None)
    assert isinstance(claim, PersistentVolumeClaim)
    assert int(claim.spec.resources.requests["storage"]) == size


@pytest.mark.parametrize(
    ("spec", "storage", "text"),
    [
        pytest.param({}, StorageSeen(), "PVC spec is missing accessMode and no storageClass to choose profile",
                     id="no class"),
        pytest.param({}, StorageSeen([msgspec.structs.replace(LATE, provisioner="somebody.example/else")]),
                     "Spec is missing accessMode and volumeMode, cannot get access mode from StorageProfile late",
                     id="an empty profile"),
        pytest.param(
            {
                "contentType": "archive",
                "source": {"http": {"url": "http://h/t"}},
                "storage": {
                    "volumeMode": "Block",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
            STORAGE,
            "ContentType Archive cannot have block volumeMode",
            id="an archive on a device",
        ),
    ],
)  # fmt: skip
def test_a_claim_that_cannot_be_made_is_told(spec: dict[str, Any], storage: StorageSeen, text: str) -> None:
    plan = plan_of(DataVolumeView(data_volume(spec), storage=storage))
    assert condition_of(plan, "Bound") == ("False", "ErrClaimNotValid", text)
    assert [(told.reason, told.warning) for told in plan.told] == [("ErrClaimNotValid", True)]


def test_without_a_consumer_a_late_claim_waits() -> None:
    dv = data_volume()
    plan = plan_of(DataVolumeView(dv, claim_for(dv, "Pending"), storage=STORAGE))
    assert status_of(plan)["phase"] == "WaitForFirstConsumer"
    assert not [action for action in plan.actions if isinstance(action, CreateWorker)]


@pytest.mark.parametrize(
    ("name", "phase", "expected"),
    [("late", "Pending", "PendingPopulation"), ("early", "Pending", "Pending"), ("late", "Bound", "")],
)
def test_a_claim_that_its_driver_fills_late_waits_for_a_pod_that_uses_it(name: str, phase: str, expected: str) -> None:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "kept"}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {"pvc": {**asked, "storageClassName": name, "dataSource": source}, "storage": None, "source": None}
    dv = data_volume(spec)
    plan = plan_of(DataVolumeView(dv, claim_for(dv, phase), storage=STORAGE))
    if expected:
        assert status_of(plan)["phase"] == expected
    else:
        (action,) = plan.actions
        assert isinstance(action, PatchClaim)
        assert action.body["metadata"]["annotations"] == {names.POD_PHASE: "Succeeded"}


@pytest.mark.parametrize("how", ["a guest", "the annotation"])
def test_with_a_consumer_the_worker_binds_the_claim_where_the_guest_can_run(how: str) -> None:
    dv = data_volume(annotations={names.BIND_IMMEDIATELY: ""} if how == "the annotation" else {})
    view = DataVolumeView(dv, claim_for(dv, "Pending"), storage=STORAGE)
    if how == "a guest":
        view.consumer = decode(VirtualMachineInstance, small_vmi())
        view.consumer.spec.node_selector = {"zone": "a"}
    pod = only(plan_of(view), CreateWorker).pod
    assert pod.spec.node_selector.get("zone") == ("a" if how == "a guest" else None)


def test_a_guest_that_runs_already_has_its_claim_bound_on_its_node() -> None:
    dv = data_volume()
    view = DataVolumeView(dv, claim_for(dv, "Pending"), storage=STORAGE)
    view.consumer = decode(VirtualMachineInstance, {**small_vmi(), "status": {"nodeName": "n2"}})
    pod = only(plan_of(view), CreateWorker).pod
    assert pod.spec.affinity == on_node("n2"), "a hotplugged volume of another node could never come to it"


def test_a_guest_that_takes_its_data_along_has_its_claim_bound_on_another_node() -> None:
    dv = data_volume()
    view = DataVolumeView(dv, claim_for(dv, "Pending"), storage=STORAGE)
    document = small_vmi()
    document["spec"]["volumes"] = [{"name": "root", "persistentVolumeClaim": {"claimName": "old"}}]
    moved = {
        "volumeName": "root",
        "sourcePVCInfo": {"claimName": "old"},
        "destinationPVCInfo": {"claimName": dv.metadata.name},
    }
    status = {"nodeName": "n2", "migratedVolumes": [moved]}
    view.consumer = decode(VirtualMachineInstance, {**document, "status": status})
    assert only(plan_of(view), CreateWorker).pod.spec.affinity == off_node(None, "n2")


def test_a_worker_is_unprivileged_and_gets_its_job() -> None:
    dv = data_volume({"source": {"http": {"url": "http://h/i", "secretRef": "s", "checksum": "md5:0"}}})
    pod = only(plan_of(DataVolumeView(dv, claim_for(dv), storage=STORAGE)), CreateWorker).pod
    (container,) = pod.spec.containers
    job = json.loads(container.env[0].value)
    assert (job["size"], job["http"]) == (GIB, {"url": "http://h/i", "checksum": "md5:0"})
    assert pod.spec.automount_service_account_token is False
    assert container.security_context.capabilities.drop == ["ALL"]
    assert {volume.name for volume in pod.spec.volumes} >= {"target", "credentials", "host-usr"}
    assert (pod.metadata.owner_references[0].kind, pod.spec.restart_policy) == ("DataVolume", "Never")


def test_a_worker_that_runs_is_told_with_its_progress() -> None:
    dv = data_volume()
    view = DataVolumeView(dv, claim_for(dv), [worker("Running")], storage=STORAGE, progress="12.34%")
    plan = plan_of(view)
    assert (status_of(plan)["phase"], status_of(plan)["progress"]) == ("ImportInProgress", "12.34%")
    assert condition_of(plan, "Running") == ("True", "Pod is running", "")
    assert condition_of(plan, "Ready") == ("False", "TransferRunning", "")
    assert plan.again_after == 2.0


def test_an_upload_is_ready_when_its_worker_is() -> None:
    dv = data_volume({"source": {"upload": {}}})
    ready = [{"type": "Ready", "status": "True"}]
    claim = claim_for(dv)
    plan = plan_of(DataVolumeView(dv, claim, [worker("Running", conditions=ready)], storage=STORAGE))
    assert status_of(plan)["phase"] == "UploadReady"
    patched = only(plan, PatchClaim).body["metadata"]["annotations"]
    assert (patched[names.POD_READY], names.UPLOAD_TARGET in claim.metadata.annotations) == ("true", True)


def test_success_is_written_on_the_claim_before_the_worker_goes() -> None:
    dv = data_volume()
    pod = ended("Succeeded", {"preallocated": True}, 0)
    first = plan_of(DataVolumeView(dv, claim_for(dv), [pod], storage=STORAGE))
    said = only(first, PatchClaim).body["metadata"]["annotations"]
    assert (said[names.POD_PHASE], said[names.PREALLOCATED]) == ("Succeeded", "true")
    second = plan_of(DataVolumeView(dv, claim_for(dv, **said), [pod], storage=STORAGE))
    assert (status_of(second)["phase"], status_of(second)["progress"]) == ("Succeeded", "100.0%")
    assert only(second, DeleteWorker).pod is pod
    assert condition_of(second, "Ready") == ("True", "", "")
    assert condition_of(second, "Running") == ("False", "Completed", "Import Complete")


def test_a_worker_that_fails_is_counted_once_and_tried_again_after_a_wait() -> None:
    dv = data_volume()
    text = "Unable to connect to http data source: expected status code 200, got 404. Status: 404 Not Found"
    pod = ended("Failed", {"message": text})
    said = only(plan_of(DataVolumeView(dv, claim_for(dv), [pod])), PatchClaim).body["metadata"]["annotations"]
    assert said[names.POD_RESTARTS] == "1"
    view = DataVolumeView(dv, claim_for(dv, **said), [pod])
    waiting = plan_of(view, NOW + timedelta(seconds=1))
    assert (waiting.again_after, condition_of(waiting, "Running")) == (4.0, ("False", "Error", text))
    assert status_of(waiting)["restartCount"] == 1
    assert status_of(waiting)["phase"] == "ImportScheduled"
    assert only(plan_of(view, NOW + timedelta(seconds=5)), DeleteWorker).pod is pod


def test_the_waits_between_tries_grow_and_end_growing() -> None:
    assert [restart_wait(n) for n in (1, 2, 3, 7, 1000)] == [5, 10, 20, 300, 300]


def test_a_wrong_checksum_is_final() -> None:
    dv = data_volume()
    pod = ended("Failed", {"message": "the sum is wrong", "reason": "ChecksumError", "fatal": True})
    said = only(plan_of(DataVolumeView(dv, claim_for(dv), [pod])), PatchClaim).body["metadata"]["annotations"]
    plan = plan_of(DataVolumeView(dv, claim_for(dv, **said), [pod]))
    assert (status_of(plan)["phase"], status_of(plan).get("restartCount", 0)) == ("Failed", 0)
    assert condition_of(plan, "Running") == ("False", "ChecksumError", "the sum is wrong")
    assert [action for action in plan.actions if isinstance(action, DeleteWorker)] == []


def test_what_a_worker_says_is_bounded() -> None:
    dv = data_volume()
    long = ended("Failed", {"message": "x" * 5000, "reason": "no word", "labels": {"app": "mine"}})
    said = only(plan_of(DataVolumeView(dv, claim_for(dv), [long])), PatchClaim).body["metadata"]
    assert len(said["annotations"][names.RUNNING_MESSAGE]) == 1024
    assert said["annotations"][names.RUNNING_REASON] == "Error"
    assert "labels" not in said
    broken = ended("Failed", "{no json")
    said = only(plan_of(DataVolumeView(dv, claim_for(dv), [broken])), PatchClaim).body["metadata"]
    assert said["annotations"][names.RUNNING_MESSAGE] == "{no json"


def test_a_claim_of_somebody_else_is_in_the_way() -> None:
    dv = data_volume()
    claim = claim_for(dv)
    claim.metadata.owner_references = []
    plan = plan_of(DataVolumeView(dv, claim))
    text = 'Resource "disk" already exists and is not managed by DataVolume'
    assert condition_of(plan, "Bound") == ("False", "ErrResourceExists", text)


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({names.ALLOW_ADOPTION: "true"}, id="adopted"),
        pytest.param({names.PRE_POPULATED: "disk"}, id="populated before"),
    ],
)
def test_a_claim_with_data_is_taken_over_without_a_worker(annotations: dict[str, str]) -> None:
    dv = data_volume(annotations=annotations)
    claim = claim_for(dv)
    claim.metadata.owner_references = []
    body = only(plan_of(DataVolumeView(dv, claim)), PatchClaim).body["metadata"]
    assert body["ownerReferences"][0]["uid"] == "dv-uid"
    assert body["annotations"][names.POD_PHASE] == "Succeeded"


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({names.ALLOW_ADOPTION: "true"}, id="adopted"),
        pytest.param({names.PRE_POPULATED: "disk"}, id="populated before"),
    ],
)
def test_a_claim_that_waits_for_its_upload_is_taken_over_only_when_that_is_in_it(annotations: dict[str, str]) -> None:
    dv = data_volume(annotations=annotations)
    claim = claim_for(dv, **{names.UPLOAD_TARGET: "", names.POD_PHASE: "Running"})
    claim.metadata.owner_references = []
    plan = plan_of(DataVolumeView(dv, claim))
    assert [type(action) for action in plan.actions] == [PatchStatus], "its guest would start under the upload"
    assert status_of(plan)["phase"] == "Pending"
    status, reason, message = condition_of(plan, "Running")
    assert (status, reason) == ("False", "ErrResourceExists")
    assert "waits for the upload into PVC disk" in message
    claim.metadata.annotations[names.POD_PHASE] = "Succeeded"
    assert only(plan_of(DataVolumeView(dv, claim)), PatchClaim).body["metadata"]["ownerReferences"]


def test_a_static_volume_is_taken_as_it_is() -> None:
    spec = {"storage": {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv"}}
    dv = data_volume(spec, annotations={names.STATIC_VOLUME: ""})
    assert only(plan_of(DataVolumeView(dv, claim_for(dv))), PatchClaim).body["metadata"]["annotations"][
        names.POD_PHASE
    ] == "Succeeded"  # fmt: skip


def test_a_claim_that_goes_takes_its_worker_along_and_is_made_anew() -> None:
    dv = data_volume()
    claim = claim_for(dv)
    claim.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    pod = worker("Running")
    assert only(plan_of(DataVolumeView(dv, claim, [pod])), DeleteWorker).pod is pod
    assert only(plan_of(DataVolumeView(dv, storage=STORAGE)), CreateClaim)


@pytest.mark.parametrize(
    ("made", "kind"),
    [("2026-01-01T00:00:00Z", PatchClaim), ("2026-01-01T00:05:00Z", CreateWorker)],
    ids=["the claim that was filled", "a new one of its name"],
)
def test_a_claim_that_lost_its_mark_is_never_filled_again(made: str, kind: type[Action]) -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:04:00Z"}
    dv = data_volume()
    dv.status = decode(type(dv.status), {"phase": "Succeeded", "conditions": [ready]})
    claim = claim_for(dv)
    claim.metadata.annotations.pop(names.POD_PHASE, None)
    claim.metadata.creation_timestamp = made
    view = DataVolumeView(dv, claim, storage=STORAGE)
    assert [type(action) for action in plan_of(view).actions if isinstance(action, (PatchClaim, CreateWorker))] == [
        kind
    ]


def test_a_lost_claim_is_a_failure() -> None:
    dv = data_volume()
    plan = plan_of(DataVolumeView(dv, claim_for(dv, "Lost")))
    assert (status_of(plan)["phase"], condition_of(plan, "Bound")) == ("Failed", ("False", "ClaimLost", "Claim Lost"))


CLONE: dict[str, Any] = {"source": {"pvc": {"name": "golden"}}}


def golden(size: str = "1Gi") -> PersistentVolumeClaim:
    return decode(
        PersistentVolumeClaim,
        {
            "metadata": {"name": "golden", "namespace": "ns", "labels": {"instancetype.kubevirt.io/default-x": "y"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                     "resources": {"requests": {"storage": size}}},
            "status": {"phase": "Bound"},
        },
    )  # fmt: skip


def test_a_copy_of_nothing_says_so_where_its_readiness_is_told() -> None:
    problem = ClaimProblem("CloneWithoutSource", "The source pvc golden doesn't exist")
    plan = plan_of(DataVolumeView(data_volume(CLONE), source=SourceSeen(problem=problem), storage=STORAGE))
    assert condition_of(plan, "Bound") == ("False", "CloneWithoutSource", "The source pvc golden doesn't exist")
    assert condition_of(plan, "Ready")[:2] == ("False", "CloneWithoutSource")


def test_a_copy_waits_while_its_source_is_written() -> None:
    dv = data_volume(CLONE)
    plan = plan_of(DataVolumeView(dv, claim_for(dv), source=SourceSeen(golden(), writer="a VM writes it")))
    assert condition_of(plan, "Running") == ("False", "CloneSourceInUse", "a VM writes it")
    assert not [action for action in plan.actions if isinstance(action, CreateWorker)]


def test_a_copy_is_begun_anew_when_its_source_is_written_meanwhile() -> None:
    dv = data_volume(CLONE)
    source = SourceSeen(golden(), writer="a VM writes it")
    running = worker("Running", {"running": {}})
    plan = plan_of(DataVolumeView(dv, claim_for(dv), workers=[running], source=source))
    assert only(plan, DeleteWorker).pod is running
    assert condition_of(plan, "Running") == ("False", "CloneSourceInUse", "a VM writes it")


def test_a_copy_takes_size_and_description_from_its_source() -> None:
    dv = data_volume({**CLONE, "storage": {"volumeMode": "Block", "accessModes": ["ReadWriteOnce"]}})
    claim = only(plan_of(DataVolumeView(dv, source=SourceSeen(golden()), storage=STORAGE)), CreateClaim).claim
    assert claim.spec.resources.requests["storage"] == str(GIB)
    assert claim.metadata.labels["instancetype.kubevirt.io/default-x"] == "y"


def test_a_data_volume_tells_the_instance_type_of_its_claim_unless_it_tells_its_own() -> None:
    dv = data_volume()
    claim = claim_for(dv, **{names.POD_PHASE: "Succeeded"})
    told = {"instancetype.kubevirt.io/default-instancetype": "small"}
    claim.metadata.labels = {**told, "app": "golden"}
    assert only(plan_of(DataVolumeView(dv, claim)), LabelDataVolume).labels == told
    dv.metadata.labels = {"instancetype.kubevirt.io/default-preference": "debian"}
    assert LabelDataVolume not in map(type, plan_of(DataVolumeView(dv, claim)).actions)


def test_a_copy_into_less_is_refused() -> None:
    dv = data_volume(CLONE)
    plan = plan_of(DataVolumeView(dv, source=SourceSeen(golden("2Gi")), storage=STORAGE))
    text = f"target resources requests storage size is smaller than the source {GIB} < {2 * GIB}"
    assert condition_of(plan, "Bound") == ("False", "CloneValidationFailed", text)


def test_the_source_of_a_copy_is_mounted_beside_the_target() -> None:
    dv = data_volume(CLONE)
    pod = only(plan_of(DataVolumeView(dv, claim_for(dv), source=SourceSeen(golden()))), CreateWorker).pod
    (container,) = pod.spec.containers
    assert [device.device_path for device in container.volume_devices] == ["/dev/kvedge-source"]
    assert json.loads(container.env[0].value)["clone"] == {"block": True}


def test_a_refusal_of_the_server_is_told_and_tried_again() -> None:
    refused = ClaimProblem("ErrExceededQuota", "exceeded quota: q")
    plan = plan_of(DataVolumeView(data_volume(), storage=STORAGE, refused=refused))
    for type_ in ("Bound", "Ready"):
        assert condition_of(plan, type_) == ("False", "ErrExceededQuota", "exceeded quota: q")
    assert only(plan, CreateClaim)


def test_nothing_is_written_when_nothing_changes() -> None:
    dv = data_volume()
    claim = claim_for(dv, **{names.POD_PHASE: "Succeeded"})
    status = status_of(plan_of(DataVolumeView(dv, claim)))
    document = {**encode(dv), "status": status}
    again = plan_of(DataVolumeView(decode(DataVolume, document), claim), NOW + timedelta(hours=1))
    assert (again.actions, again.told) == ((), ())


def test_a_phase_is_told_once() -> None:
    dv = data_volume()
    plan = plan_of(DataVolumeView(dv, claim_for(dv), [worker("Running")]))
    texts = [(told.reason, told.message) for told in plan.told]
    assert texts[0] == ("ImportInProgress", "Import into disk in progress")


def test_a_claim_that_somebody_else_fills_is_told_in_those_words() -> None:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday"}
    asked = {"resources": {"requests": {"storage": "1Gi"}}, "dataSource": source}
    dv = data_volume({"source": None, "storage": asked})
    plan = plan_of(DataVolumeView(dv, claim_for(dv, **{names.POD_PHASE: "Succeeded"}), storage=STORAGE))
    assert status_of(plan)["phase"] == "Succeeded"
    told = {told.reason: told.message for told in plan.told}
    assert told["ExternalPopulationSucceeded"] == "PVC disk successfully populated by monday"
    assert "Population Complete" in told.values()


def test_a_data_volume_that_goes_makes_nothing() -> None:
    dv = data_volume(deletionTimestamp="2026-01-01T00:00:00Z")
    assert plan_of(DataVolumeView(dv, storage=STORAGE)).actions == ()


def worker_of(registry: dict[str, Any], *, image_volumes: bool = True) -> Pod:
    dv = data_volume({"source": {"registry": {"url": "docker://local/debian:12", **registry}}})
    view = DataVolumeView(dv, claim_for(dv), storage=STORAGE)
    plan = plan_data_volume(view, replace(CLUSTER, image_volumes=image_volumes), NOW)
    made: Pod = only(plan, CreateWorker).pod
    return made


def job_of(pod: Pod) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pod.spec.containers[0].env[0].value)
    return found


def test_an_image_that_the_node_is_to_pull_is_mounted_beside_the_claim() -> None:
    pod = worker_of({"pullMethod": "node"})
    (volume,) = (item for item in pod.spec.volumes if item.image is not None)
    assert volume.image is not None
    assert (volume.image.reference, volume.image.pull_policy) == ("local/debian:12", "IfNotPresent")
    (mount,) = (item for item in pod.spec.containers[0].volume_mounts if item.name == volume.name)
    assert (mount.mount_path, mount.read_only) == ("/source", True)
    assert (job_of(pod)["image"], job_of(pod).get("registry")) == ({"name": "local/debian:12"}, None)


@pytest.mark.parametrize(
    ("registry", "image_volumes"),
    [
        pytest.param({}, True, id="the worker pulls unless it is told otherwise"),
        pytest.param({"pullMethod": "node", "secretRef": "login"}, True, id="a login is the worker's"),
        pytest.param({"pullMethod": "node", "certConfigMap": "ca"}, True, id="an authority is the worker's"),
        pytest.param({"pullMethod": "node"}, False, id="nodes that mount no images"),
    ],
)
def test_the_worker_pulls_what_the_node_cannot(registry: dict[str, Any], image_volumes: bool) -> None:
    pod = worker_of(registry, image_volumes=image_volumes)
    assert [item for item in pod.spec.volumes if item.image is not None] == []
    assert job_of(pod)["registry"]["url"] == "docker://local/debian:12"


def test_workers_stay_out_of_a_mesh() -> None:
    dv = data_volume({"source": {"http": {"url": "http://example.org/disk"}}})
    made = only(plan_of(DataVolumeView(dv, claim_for(dv), storage=STORAGE)), CreateWorker).pod
    looks = poll_pod(
        dv,
        poll_job(dv, None),
        OwnerReference(api_version="v1", kind="DataImportCron", name="c", uid="u"),
        CLUSTER,
        None,
    )
    sends = sender_pod(dv, poll_job(dv, None), WorkerPlace(claim_for(dv), claim_for(dv)), CLUSTER, None)
    for pod in (made, looks, sends):
        assert pod.metadata.labels["sidecar.istio.io/inject"] == "false"
        assert pod.metadata.annotations["sidecar.istio.io/inject"] == "false"
        assert pod.metadata.annotations["linkerd.io/inject"] == "disabled"
        assert [container.name for container in pod.spec.containers] == [names.WORKER_CONTAINER]


def test_what_a_container_beside_the_worker_says_does_not_count() -> None:
    proxy = {"name": "a-proxy", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    pod = encode(ended("Failed", {"message": "no such image"}))
    said = {**proxy, "state": {"terminated": {"exitCode": 0, "message": "bye"}}}
    pod["status"]["containerStatuses"].insert(0, said)
    assert look_at_worker(decode(Pod, pod)).message == "no such image"
