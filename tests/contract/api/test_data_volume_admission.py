"""DataVolumes and DataSources that can never be are refused by both servers when they are applied."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.errors import Invalid, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.data_volumes import DataSource, DataVolume

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
STORAGE = {"resources": {"requests": {"storage": "1Gi"}}}


def make(admin: KubeClient, kind: type[DataVolume | DataSource], name: str, spec: dict[str, Any]) -> dict[str, Any]:
    document = {
        "apiVersion": kind.KIND.api_version,
        "kind": kind.KIND.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    made: dict[str, Any] = admin.request("POST", kind.KIND.path("default"), document)
    return made


def test_a_data_volume_that_cannot_be_filled_is_refused_with_its_field(admin: KubeClient) -> None:
    with pytest.raises(KubeError, match=r"Missing Data volume source") as refused:
        make(admin, DataVolume, "never", {"source": {}, "storage": STORAGE})
    assert [cause.field for cause in refused.value.causes] == ["spec.source"]


def test_a_data_volume_without_a_spec_is_refused_with_that_field(admin: KubeClient) -> None:
    kind = DataVolume.KIND
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "bare"}}
    with pytest.raises(Invalid) as refused:
        admin.request("POST", kind.path("default"), document)
    assert "spec" in [cause.field for cause in refused.value.causes]


def test_a_data_volume_keeps_its_spec_and_takes_labels(admin: KubeClient) -> None:
    make(admin, DataVolume, "kept", {"source": {"blank": {}}, "storage": STORAGE})
    path = DataVolume.KIND.path("default", "kept")
    merge = "application/merge-patch+json"
    try:
        admin.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, None, merge)
        with pytest.raises(KubeError, match="Cannot update DataVolume Spec"):
            admin.request("PATCH", path, {"spec": {"preallocation": True}}, None, merge)
    finally:
        admin.request("DELETE", path)


def test_a_data_source_that_is_its_own_source_is_refused(admin: KubeClient) -> None:
    with pytest.raises(KubeError, match="DataSource cannot self-reference"):
        make(admin, DataSource, "snake", {"source": {"dataSource": {"name": "snake"}}})
