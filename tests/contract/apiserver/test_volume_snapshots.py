"""The kinds of snapshots of claims, which one box has itself: their rules, columns and words, and tools that ask."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server, new_namespace
from tests.support.api_client import MERGE, eventually

pytestmark = pytest.mark.contract

GROUP = "/apis/snapshot.storage.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLURALS = ("volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses")


def kubectl(server: Server, *words: str) -> str:
    command = ["kubectl", "--kubeconfig", str(server.kubeconfig), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture
def place(embedded_server: Server) -> str:
    """The path of VolumeSnapshots in a namespace of the test's own."""
    return f"{GROUP}/namespaces/{new_namespace(embedded_server.admin)}/volumesnapshots"


def snapshot(**spec: Any) -> dict[str, Any]:
    wanted = {"source": {"persistentVolumeClaimName": "data"}, **spec}
    return {"metadata": {"name": "first"}, "spec": wanted}


def test_a_snapshot_keeps_its_source_and_its_status_is_a_subresource(embedded_server: Server, place: str) -> None:
    admin = embedded_server.admin
    admin.made(place, {**snapshot(), "status": {"readyToUse": True}})
    path = f"{place}/first"
    assert "status" not in admin.get(path).json
    answer = admin.patch(path, {"spec": {"source": {"persistentVolumeClaimName": "other"}}}, MERGE)
    assert answer.status == 422
    assert "persistentVolumeClaimName is immutable" in answer.message
    assert admin.patch(path, {"spec": {"volumeSnapshotClassName": "kvedge"}}, MERGE).status == 200
    assert admin.patch(f"{path}/status", {"status": {"readyToUse": True, "restoreSize": "1Gi"}}, MERGE).status == 200
    found = admin.get(path).json
    assert (found["status"]["restoreSize"], found["metadata"]["generation"]) == ("1Gi", 2)


def test_a_snapshot_of_nothing_is_refused(embedded_server: Server, place: str) -> None:
    answer = embedded_server.admin.post(place, {"metadata": {"name": "first"}, "spec": {"source": {}}})
    assert answer.status == 422
    assert "exactly one of volumeSnapshotContentName and persistentVolumeClaimName must be set" in answer.message


def test_kubectl_knows_the_kinds_by_their_short_names_and_explains_them(embedded_server: Server, place: str) -> None:
    embedded_server.admin.made(place, snapshot())
    namespace = place.split("/")[-2]
    head, row = kubectl(embedded_server, "get", "vs", "-n", namespace).splitlines()
    assert head.split() == [
        *("NAME", "READYTOUSE", "SOURCEPVC", "SOURCESNAPSHOTCONTENT", "RESTORESIZE", "SNAPSHOTCLASS"),
        *("SNAPSHOTCONTENT", "CREATIONTIME", "AGE"),
    ]
    assert row.split()[:2] == ["first", "data"]
    assert "persistentVolumeClaimName" in kubectl(embedded_server, "explain", "volumesnapshot.spec.source")
    for short in ("vsc", "vsclass"):
        kubectl(embedded_server, "get", short)


def test_tools_find_definitions_and_deleting_one_deletes_no_snapshot(embedded_server: Server, place: str) -> None:
    admin = embedded_server.admin
    admin.made(place, snapshot())
    for plural in PLURALS:
        found = admin.get(f"{CRDS}/{plural}.snapshot.storage.k8s.io").json
        assert [(each["name"], each["served"]) for each in found["spec"]["versions"]] == [("v1", True)]
        assert {each["type"]: each["status"] for each in found["status"]["conditions"]}["Established"] == "True"
    path = f"{CRDS}/volumesnapshots.snapshot.storage.k8s.io"
    definition = admin.get(path).json
    admin.delete(path)
    eventually(lambda: admin.get(path).status == 404)
    assert admin.get(f"{place}/first").status == 200
    fresh = {key: definition["metadata"][key] for key in ("name", "annotations")}
    admin.made(CRDS, {**{key: definition[key] for key in ("apiVersion", "kind", "spec")}, "metadata": fresh})
    assert admin.get(f"{place}/first").status == 200
