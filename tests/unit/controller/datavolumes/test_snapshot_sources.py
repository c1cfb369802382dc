# Tests: kvedge/controller/datavolumes/snapshot_sources.py
# Tests: kvedge/controller/datavolumes/storage_facts/named_snapshots.py
"""A DataVolume of a VolumeSnapshot: the claim that its driver then makes, and what keeps it from being made."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.datavolumes.data_volume_view import CreateClaim, CreateWorker, DataVolumeView, PatchClaim
from kvedge.controller.datavolumes.snapshot_sources import data_source, see_snapshot
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources import data_volume_names as names
from kvedge.resources.codec import decode
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from tests.unit.controller.datavolumes.test_data_volume_plan import (
    STORAGE,
    claim_for,
    data_volume,
    only,
    plan_of,
    status_of,
)

READY = {"readyToUse": True, "restoreSize": "2Gi", "boundVolumeSnapshotContentName": "content"}
OF_SNAPSHOT = {"source": {"snapshot": {"name": "first"}}}
LATE_DISK = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late"}


class Server:
    """Has this snapshot with its content, or nothing."""

    def __init__(self, status: dict[str, Any] | None, mode: str = "Filesystem") -> None:
        self._status, self._mode = status, mode

    def get(self, cls: type, namespace: str, name: str) -> VolumeSnapshot | VolumeSnapshotContent:
        if self._status is None:
            raise NotFound(404, "NotFound", name)
        if cls is VolumeSnapshotContent:
            return decode(VolumeSnapshotContent, {"metadata": {"name": name}, "spec": {"sourceVolumeMode": self._mode}})
        meta = {"name": name, "namespace": namespace, "labels": {"instancetype.kubevirt.io/default-instancetype": "u1"}}
        return decode(VolumeSnapshot, {"metadata": meta, "status": self._status})


def view_of(spec: dict[str, Any], status: dict[str, Any] | None = READY, mode: str = "Filesystem") -> DataVolumeView:
    server: Any = Server(status, mode)
    client: KubeClient = server
    return DataVolumeView(
        data_volume({**OF_SNAPSHOT, **spec}), storage=STORAGE, source=see_snapshot(client, "ns", "first", "ns")
    )


def problem_of(view: DataVolumeView) -> str:
    plan = plan_of(view)
    assert not [action for action in plan.actions if isinstance(action, CreateClaim)]
    conditions = status_of(plan)["conditions"]
    return str(next(item["message"] for item in conditions if item["type"] == "Bound"))


def test_the_claim_is_made_of_the_snapshot_as_large_as_that_wants_it_and_in_its_mode() -> None:
    made = only(plan_of(view_of({"storage": LATE_DISK}, mode="Block")), CreateClaim).claim
    assert made.spec.data_source == data_source("first")
    assert made.spec.resources.requests == {"storage": str(2 << 30)}
    assert made.spec.volume_mode == "Block"
    assert made.metadata.labels["instancetype.kubevirt.io/default-instancetype"] == "u1"


def test_a_mode_and_a_size_of_its_own_count() -> None:
    disk = {**LATE_DISK, "volumeMode": "Filesystem", "resources": {"requests": {"storage": "4Gi"}}}
    made = only(plan_of(view_of({"storage": disk}, mode="Block")), CreateClaim).claim
    assert made.spec.volume_mode == "Filesystem"
    assert int(str(made.spec.resources.requests["storage"])) > 4 << 30


def test_no_worker_fills_it_and_it_is_done_when_its_volume_is_there() -> None:
    view = view_of({"storage": {**LATE_DISK, "resources": {"requests": {"storage": "2Gi"}}}})
    view.claim = claim_for(view.dv, "Bound")
    view.claim.spec.data_source = data_source("first")
    (action,) = plan_of(view).actions
    assert isinstance(action, PatchClaim)
    assert action.body["metadata"]["annotations"] == {names.POD_PHASE: "Succeeded"}
    view.claim.status.phase = "Pending"
    assert not [action for action in plan_of(view).actions if isinstance(action, CreateWorker)]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, "The source snapshot first doesn't exist"),
        ({}, "The source snapshot first is not ready"),
        (
            {"readyToUse": False, "error": {"message": "VM web writes this volume"}},
            "The source snapshot first is not ready: VM web writes this volume",
        ),
    ],
    ids=["missing", "new", "failed"],
)
def test_a_snapshot_that_cannot_be_had_yet_is_waited_for(status: dict[str, Any] | None, text: str) -> None:
    assert problem_of(view_of({"storage": LATE_DISK}, status)) == text


def test_a_smaller_claim_is_refused() -> None:
    disk = {**LATE_DISK, "resources": {"requests": {"storage": "1Gi"}}}
    assert "is smaller than the source" in problem_of(view_of({"storage": disk}))


def test_a_snapshot_of_another_namespace_is_not_looked_at() -> None:
    nobody: Any = None
    found = see_snapshot(nobody, "other", "first", "ns")
    assert found.problem is not None
    assert found.problem.message.endswith("make a claim of it there, and clone that with source.pvc")
