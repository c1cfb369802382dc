"""A claim of another namespace that is sent: when the sender comes, when it goes, and what its failures are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kvedge.controller.datavolumes.data_volume_view import (
    CreateWorker,
    DeleteWorker,
    PatchClaim,
    SourceSeen,
)
from kvedge.controller.datavolumes.remote_clone_plan import CreateSender, KeepCertificate, own_senders
from kvedge.resources import data_volume_names as names
from kvedge.resources.types.core import Pod
from kvedge.resources.types.import_job import JOB_VARIABLE
from tests.support.values import replace
from tests.unit.controller.datavolumes.test_data_volume_plan import (
    NOW,
    STORAGE,
    DataVolumeView,
    claim_for,
    condition_of,
    data_volume,
    ended,
    plan_of,
    status_of,
    worker,
)

DV = data_volume({"source": {"pvc": {"namespace": "golden", "name": "image"}}})
SENDER = "cdi-upload-source-claim-uid"


def a_view(*workers: Pod, senders: tuple[Pod, ...] = (), writer: str = "", **annotations: str) -> DataVolumeView:
    claim = claim_for(DV, **annotations)
    source = claim_for(data_volume())
    source.metadata.namespace, source.metadata.name, source.metadata.uid = "golden", "image", "image-uid"
    seen = SourceSeen(claim=source, writer=writer)
    return DataVolumeView(DV, claim, list(workers), source=seen, storage=STORAGE, senders=senders)


def a_worker() -> Pod:
    return worker("Running", podIP="192.0.2.9", conditions=[{"type": "Ready", "status": "True"}])


def a_sender(made: Pod, namespace: str = "golden", name: str = SENDER) -> Pod:
    made.metadata.namespace, made.metadata.name, made.metadata.uid = namespace, name, "sender-uid"
    return made


def test_the_worker_takes_and_mounts_nothing_of_the_other_namespace() -> None:
    (made,) = (action for action in plan_of(a_view()).actions if isinstance(action, CreateWorker))
    assert made.upload
    assert made.pod.metadata.name == "cdi-upload-disk"
    claims = [v.persistent_volume_claim.claim_name for v in made.pod.spec.volumes if v.persistent_volume_claim]
    assert claims == ["disk"]
    assert made.pod.spec.containers[0].readiness_probe is not None


def test_the_sender_comes_when_the_worker_takes_data() -> None:
    assert not any(isinstance(action, CreateSender) for action in plan_of(a_view(worker("Running"))).actions)
    (made,) = (action for action in plan_of(a_view(a_worker())).actions if isinstance(action, CreateSender))
    pod = made.pod
    assert (pod.metadata.namespace, pod.metadata.name) == ("golden", SENDER)
    assert pod.metadata.labels[names.CLONE_TARGET] == "dv-uid"
    assert [owner.uid for owner in pod.metadata.owner_references] == ["image-uid"]
    job = next(env.value for env in pod.spec.containers[0].env if env.name == JOB_VARIABLE)
    assert '"address":"192.0.2.9"' in job
    assert '"serverName":"claim-uid.upload.kvedge.io"' in job


def test_a_sender_that_waits_gets_its_certificate_again_and_says_why_it_waits() -> None:
    unscheduled = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}]
    plan = plan_of(a_view(a_worker(), senders=(a_sender(worker("Pending", conditions=unscheduled)),)))
    assert any(isinstance(action, KeepCertificate) for action in plan.actions)
    assert condition_of(plan, "Running") == ("False", "Unschedulable", "Importer pod cannot be scheduled: no node")


def test_a_sender_that_fails_is_counted_then_taken_away_and_the_worker_stays() -> None:
    sender = a_sender(ended("Failed", {"message": "too large"}))
    counted = plan_of(a_view(a_worker(), senders=(sender,)))
    (patch,) = (action for action in counted.actions if isinstance(action, PatchClaim))
    assert patch.body["metadata"]["annotations"][names.POD_RESTARTS] == "1"
    said = {names.COUNTED_WORKER: "sender-uid", names.POD_RESTARTS: "1"}
    later = plan_of(a_view(a_worker(), senders=(sender,), **said), NOW + timedelta(seconds=60))
    assert [action.pod for action in later.actions if isinstance(action, DeleteWorker)] == [sender]
    assert condition_of(later, "Running") == ("False", "Error", "too large")


def test_while_a_vm_writes_the_source_nothing_is_sent_and_what_is_sent_does_not_count() -> None:
    sender = a_sender(worker("Running"))
    plan = plan_of(a_view(a_worker(), senders=(sender,), writer="VirtualMachineInstance golden/web using it"))
    assert {pod.pod.metadata.name for pod in plan.actions if isinstance(pod, DeleteWorker)} == {"importer-disk", SENDER}
    assert condition_of(plan, "Running")[1] == "CloneSourceInUse"
    assert not any(isinstance(a, CreateWorker) for a in plan_of(a_view(writer="somebody")).actions)


@pytest.mark.parametrize("case", ["it is full", "its worker has gone", "it is deleted"])
def test_a_sender_that_nobody_needs_goes(case: str) -> None:
    sender = a_sender(worker("Running"))
    if case == "it is full":
        view = a_view(a_worker(), senders=(sender,), **{names.POD_PHASE: "Succeeded"})
    elif case == "its worker has gone":
        view = a_view(senders=(sender,))
    else:
        gone = data_volume(
            {"source": {"pvc": {"namespace": "golden", "name": "image"}}}, deletionTimestamp="2026-01-01T00:00:00Z"
        )
        view = replace(a_view(a_worker(), senders=(sender,)), dv=gone)
    deleted = [action.pod.metadata.name for action in plan_of(view).actions if isinstance(action, DeleteWorker)]
    assert SENDER in deleted


def test_one_that_is_needed_stays() -> None:
    plan = plan_of(a_view(a_worker(), senders=(a_sender(worker("Running")),)))
    assert not any(isinstance(action, DeleteWorker | CreateSender) for action in plan.actions)
    assert status_of(plan)["phase"] == "CloneInProgress"


def test_a_pod_that_is_labelled_like_a_sender_is_none() -> None:
    view = a_view()
    assert view.source is not None
    strangers = [a_sender(worker("Failed"), namespace="evil"), a_sender(worker("Failed"), name="other")]
    assert own_senders(view.claim, view.source.claim, strangers) == []
