"""What kvedge writes into StorageProfiles and the CDIConfig: nothing that has no effect."""

from __future__ import annotations

from datetime import UTC, datetime

from kvedge.controller.datavolumes.storage_facts.storage_facts_plan import plan_config, plan_profile
from kvedge.resources.meta import LocalObjectReference, ObjectMeta
from kvedge.resources.types.data_volumes import (
    CdiConfig,
    CdiConfigSpec,
    CdiConfigStatus,
    ImportProxy,
    StorageProfile,
    StorageProfileSpec,
)
from kvedge.resources.types.storage import StorageClass

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_profiles_status_tells_what_the_class_can_and_no_way_of_cloning() -> None:
    storage_class = StorageClass(metadata=ObjectMeta(name="fast"), provisioner="nfs.csi.k8s.io")
    spec = StorageProfileSpec(clone_strategy="snapshot", data_import_cron_source_format="snapshot", snapshot_class="a")
    status = plan_profile(storage_class, StorageProfile(spec=spec), NOW)["status"]
    assert status.keys() == {"storageClass", "provisioner", "claimPropertySets", "conditions"}


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
