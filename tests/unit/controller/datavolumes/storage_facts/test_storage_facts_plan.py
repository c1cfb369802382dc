"""What kvedge writes into StorageProfiles and the CDIConfig, nothing that has no effect, and into DataSources."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kvedge.controller.datavolumes.storage_facts.storage_facts_plan import plan_config, plan_data_source, plan_profile
from kvedge.resources.codec import decode, encode
from kvedge.resources.data_volume_names import TOLD_LABELS
from kvedge.resources.meta import LocalObjectReference, ObjectMeta
from kvedge.resources.types.data_volumes import (
    CdiConfig,
    CdiConfigSpec,
    CdiConfigStatus,
    DataSource,
    DataSourceStatus,
    ImportProxy,
    StorageProfile,
    StorageProfileSpec,
)
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.standalone.apiserver.patch import merge_patch

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_profiles_status_tells_what_the_class_can_and_no_way_of_cloning() -> None:
    storage_class = StorageClass(metadata=ObjectMeta(name="fast"), provisioner="nfs.csi.k8s.io")
    spec = StorageProfileSpec(clone_strategy="snapshot", data_import_cron_source_format="snapshot", snapshot_class="a")
    status = plan_profile(storage_class, StorageProfile(spec=spec), NOW)["status"]
    told = {"storageClass", "provisioner", "claimPropertySets", "dataImportCronSourceFormat", "conditions"}
    assert (status.keys(), status["dataImportCronSourceFormat"]) == (told, "pvc")


def test_a_configs_status_tells_of_no_setting_without_effect_and_forgets_one_that_it_told() -> None:
    spec = CdiConfigSpec(
        import_proxy=ImportProxy(http_proxy="http://proxy.example:3128"),
        image_pull_secrets=[LocalObjectReference(name="pull")],
        scratch_space_storage_class="fast",
    )
    told = CdiConfigStatus(scratch_space_storage_class="fast")
    status = plan_config(CdiConfig(spec=spec, status=told), "https://proxy.example", "")["status"]
    assert status.pop("scratchSpaceStorageClass") is None
    assert status.keys() == {"uploadProxyURL", "filesystemOverhead", "preallocation"}


def golden(name: str, **labels: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="ns", labels=labels))


def data_source(claim: str, **labels: str) -> DataSource:
    return decode(
        DataSource,
        {
            "metadata": {"name": "debian", "namespace": "ns", "labels": labels},
            "spec": {"source": {"pvc": {"name": claim}}},
        },
    )


def plan(item: DataSource, claim: PersistentVolumeClaim | None, now: datetime = NOW) -> dict[str, Any]:
    return plan_data_source(item, lambda _: None, lambda *_: claim, lambda *_: None, now)


def test_a_data_source_has_kubevirts_labels_of_the_claim_that_it_points_at() -> None:
    wanted = {"instancetype.kubevirt.io/default-preference": "debian", "kubevirt.io/size": "small"}
    claim = golden("disk", **wanted, app="golden", **{"evilkubevirt.io/x": "y"})
    item = data_source("disk", team="a", **{"kubevirt.io/size": "large"})
    names = ",".join(sorted(wanted))
    assert plan(item, claim)["metadata"] == {"labels": wanted, "annotations": {TOLD_LABELS: names}}
    assert "metadata" not in plan(data_source("disk", **wanted), claim)
    assert "metadata" not in plan(item, None)


def patched(item: DataSource, body: dict[str, Any]) -> DataSource:
    """What a server makes of a DataSource and a merge patch."""
    return decode(DataSource, merge_patch.apply(encode(item), body))


def test_a_data_source_that_points_elsewhere_loses_the_labels_of_its_former_source() -> None:
    first = golden("first", **{"kubevirt.io/size": "small", "kubevirt.io/os": "debian", "kubevirt.io/team": "a"})
    item = data_source("first", team="a", **{"kubevirt.io/team": "a"})
    item = patched(item, plan(item, first))
    assert plan(item, first) == {}
    second = golden("second", **{"kubevirt.io/size": "large"})
    item.spec = data_source("second").spec
    item = patched(item, plan(item, second))
    assert item.metadata.labels == {"team": "a", "kubevirt.io/team": "a", "kubevirt.io/size": "large"}
    assert item.metadata.annotations == {TOLD_LABELS: "kubevirt.io/size"}
    assert plan(item, second) == {}
    item.spec = data_source("third").spec
    item = patched(item, plan(item, None))
    assert item.metadata.labels == {"team": "a", "kubevirt.io/team": "a"}
    assert item.metadata.annotations == {}


def test_a_label_that_a_source_no_longer_has_goes_but_not_while_the_source_is_away() -> None:
    claim = golden("disk", **{"kubevirt.io/size": "small"})
    item = data_source("disk")
    item = patched(item, plan(item, claim))
    item = patched(item, plan(item, None))
    assert item.metadata.labels == {"kubevirt.io/size": "small"}
    item = patched(item, plan(item, golden("disk")))
    assert item.metadata.labels == {}


def test_a_data_source_is_never_led_by_the_cron_of_a_claim_that_it_points_at() -> None:
    claim = golden("disk", **{"cdi.kubevirt.io/dataImportCron": "nightly"})
    assert "metadata" not in plan(data_source("disk"), claim)


def test_of_another_namespaces_claim_no_more_is_told_than_vms_ask_for() -> None:
    wanted = {"instancetype.kubevirt.io/default-preference": "debian"}
    claim = golden("disk", **wanted, **{"secret.kubevirt.io/plan": "x"})
    claim.metadata.namespace = "other"
    item = data_source("disk")
    assert item.spec.source.pvc is not None
    item.spec.source.pvc.namespace = "other"
    assert plan(item, claim)["metadata"]["labels"] == wanted


def test_being_ready_of_another_claim_has_a_time_of_its_own() -> None:
    item = data_source("disk")
    item.status = decode(DataSourceStatus, plan(item, golden("disk"))["status"])
    later = NOW + timedelta(hours=1)
    assert plan(item, golden("disk"), later) == {}
    item.spec = data_source("other").spec
    (condition,) = plan(item, golden("other"), later)["status"]["conditions"]
    assert condition["lastTransitionTime"] == "2026-01-01T01:00:00Z"
