"""Snapshots and restores that can never be done are refused by both servers when they are applied."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
WEB = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}


def make(
    admin: KubeClient, kind: type[VirtualMachineSnapshot | VirtualMachineRestore], spec: dict[str, Any]
) -> dict[str, Any]:
    document = {
        "apiVersion": kind.KIND.api_version,
        "kind": kind.KIND.kind,
        "metadata": {"name": "admission"},
        "spec": spec,
    }
    made: dict[str, Any] = admin.request("POST", kind.KIND.path("default"), document)
    return made


def test_a_snapshot_of_another_kind_is_refused_with_its_field(admin: KubeClient) -> None:
    with pytest.raises(KubeError, match="invalid kind") as refused:
        make(admin, VirtualMachineSnapshot, {"source": {**WEB, "kind": "Pod"}})
    assert [cause.field for cause in refused.value.causes] == ["spec.source.kind"]


def test_a_snapshot_keeps_its_spec_and_takes_labels(admin: KubeClient) -> None:
    make(admin, VirtualMachineSnapshot, {"source": WEB})
    path = VirtualMachineSnapshot.KIND.path("default", "admission")
    merge = "application/merge-patch+json"
    try:
        admin.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, None, merge)
        with pytest.raises(KubeError, match="spec in immutable after creation"):
            admin.request("PATCH", path, {"spec": {"failureDeadline": "1m"}}, None, merge)
    finally:
        admin.request("DELETE", path)


def test_a_restore_by_a_policy_that_there_is_not_is_refused(admin: KubeClient) -> None:
    spec = {"target": WEB, "virtualMachineSnapshotName": "before", "volumeRestorePolicy": "Anew"}
    with pytest.raises(KubeError, match="doesn't exist") as refused:
        make(admin, VirtualMachineRestore, spec)
    assert [cause.field for cause in refused.value.causes] == ["spec.volumeRestorePolicy"]


def test_a_clone_that_nobody_has_named_gets_a_name_and_a_bad_filter_its_field(admin: KubeClient) -> None:
    kind = VirtualMachineClone.KIND
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "admission"}}
    with pytest.raises(KubeError, match="missing closing") as refused:
        admin.request("POST", kind.path("default"), {**body, "spec": {"source": WEB, "labelFilters": ["a("]}})
    assert [cause.field for cause in refused.value.causes] == ["spec.labelFilters[0]"]
    older = kind.path("default").replace("v1beta1", "v1alpha1")
    asked = {**body, "apiVersion": f"{kind.group}/v1alpha1", "spec": {"source": WEB}}
    made = admin.request("POST", older, asked)
    try:
        assert made["spec"]["target"]["name"].startswith("clone-web-")
        assert made["spec"]["target"]["kind"] == "VirtualMachine"
    finally:
        admin.request("DELETE", kind.path("default", "admission"))
