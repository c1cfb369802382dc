# Tests: kvedge/controller/vmi/volume_status.py, kvedge/controller/claim_copy.py
"""The copy of each claim in a VMI's status."""

from __future__ import annotations

import pytest

from kvedge.controller.claim_copy import claim_info
from kvedge.controller.vmi.claim_rules import ClaimView
from kvedge.controller.vmi.volume_status import with_claims
from kvedge.resources.types.data_volumes import CdiConfig, CdiConfigStatus, FilesystemOverhead
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import ClaimInfo, HotplugVolumeStatus, VolumeStatus
from tests.support.builders import a_claim, vmi_with, with_volumes

# Where nobody has set anything.
PLAIN = CdiConfig()


def seen(*claims: PersistentVolumeClaim) -> ClaimView:
    return ClaimView({claim.metadata.name: claim for claim in claims}, cdi=PLAIN)


def test_each_permanent_volume_has_an_entry_sorted_by_name_with_its_claim() -> None:
    root = {"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}}
    data = {"name": "data", "dataVolume": {"name": "web-data"}}
    seed = {"name": "seed", "emptyDisk": {"capacity": "1Gi"}}
    vmi = vmi_with(with_volumes(root, data, seed))
    entries = with_claims(vmi, seen(a_claim(), a_claim("web-data", volume_mode="Block")))
    assert [entry.name for entry in entries] == ["data", "root", "seed"]
    infos = [entry.persistent_volume_claim_info for entry in entries]
    assert [info and (info.claim_name, info.volume_mode, info.filesystem_overhead) for info in infos] == [
        ("web-data", "Block", "0"),
        ("web-root", "Filesystem", "0.06"),
        None,
    ]


def test_what_others_have_written_into_an_entry_stays() -> None:
    later = {"name": "later", "persistentVolumeClaim": {"claimName": "web-root", "hotpluggable": True}}
    vmi = vmi_with(with_volumes(later))
    there = VolumeStatus(name="later", target="sda", phase="Ready", hotplug_volume=HotplugVolumeStatus())
    vmi.status.volume_status = [there]
    (entry,) = with_claims(vmi, seen(a_claim()))
    assert (entry.target, entry.phase, entry.hotplug_volume) == ("sda", "Ready", HotplugVolumeStatus())
    assert entry.persistent_volume_claim_info is not None


def test_a_hotplugged_volume_without_an_entry_is_left_to_those_who_bring_it() -> None:
    later = {"name": "later", "persistentVolumeClaim": {"claimName": "web-root", "hotpluggable": True}}
    assert with_claims(vmi_with(with_volumes(later)), seen(a_claim())) == []


def test_a_name_under_which_the_guest_still_has_another_claim_keeps_the_copy_of_that_one() -> None:
    later = {"name": "later", "persistentVolumeClaim": {"claimName": "web-root", "hotpluggable": True}}
    vmi = vmi_with(with_volumes(later))
    held = ClaimInfo(claim_name="before")
    vmi.status.volume_status = [VolumeStatus(name="later", target="", phase="Ready", persistent_volume_claim_info=held)]
    (entry,) = with_claims(vmi, seen(a_claim(), a_claim("before")))
    assert entry.persistent_volume_claim_info == held


def test_a_claim_that_is_gone_leaves_its_last_copy() -> None:
    vmi = vmi_with(with_volumes({"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}}))
    vmi.status.volume_status = with_claims(vmi, seen(a_claim()))
    assert with_claims(vmi, seen()) == vmi.status.volume_status


def test_a_claim_of_local_path_says_what_it_will_never_do() -> None:
    vmi = vmi_with(with_volumes({"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}}))
    claim = a_claim()
    claim.spec.storage_class_name = "local-path"
    claim.metadata.annotations["volume.kubernetes.io/storage-provisioner"] = "rancher.io/local-path"
    vmi.status.volume_status = with_claims(vmi, seen(claim))
    (entry,) = vmi.status.volume_status
    assert entry.reason == "LimitedStorage"
    assert entry.message.startswith("storage class local-path (local-path) can neither grow PVC web-root nor take a")
    (entry,) = with_claims(vmi, seen(a_claim()))
    assert (entry.reason, entry.message) == ("", "")


def test_a_hotplugged_claim_of_local_path_keeps_the_words_of_its_phase() -> None:
    vmi = vmi_with(
        with_volumes({"name": "later", "persistentVolumeClaim": {"claimName": "web-root", "hotpluggable": True}})
    )
    vmi.status.volume_status = [VolumeStatus(name="later", target="sda", phase="Ready", reason="VolumeReady")]
    claim = a_claim()
    claim.metadata.annotations["volume.kubernetes.io/storage-provisioner"] = "rancher.io/local-path"
    assert with_claims(vmi, seen(claim))[0].reason == "VolumeReady"


def test_a_thick_claim_is_known_by_its_annotation() -> None:
    claim = a_claim()
    for key, value, thick in (
        ("cdi.kubevirt.io/storage.preallocation", "true", True),
        ("vendor.example/storage.thick-provisioned", "true", True),
        ("cdi.kubevirt.io/storage.preallocation", "false", False),
    ):
        claim.metadata.annotations = {key: value}
        assert claim_info(claim, PLAIN, None).preallocated is thick


TOLD = CdiConfig(
    status=CdiConfigStatus(filesystem_overhead=FilesystemOverhead(global_="0.1", storage_class={"fast": "0.02"}))
)


@pytest.mark.parametrize(
    ("config", "class_name", "expected"),
    [
        pytest.param(TOLD, "fast", "0.02", id="of the claim's class"),
        pytest.param(TOLD, "other", "0.1", id="of all other classes"),
        pytest.param(TOLD, None, "0.1", id="of a claim without a class"),
        pytest.param(PLAIN, "fast", "0.06", id="nobody has said"),
        pytest.param(None, "fast", None, id="not known yet"),
    ],
)
def test_a_file_system_takes_what_the_cdi_config_says(
    config: CdiConfig | None, class_name: str | None, expected: str | None
) -> None:
    assert claim_info(a_claim(storage_class_name=class_name), config, None).filesystem_overhead == expected


def test_what_was_known_of_a_claim_stays_while_the_cdi_config_is_not_known() -> None:
    known = ClaimInfo(claim_name="web-root", filesystem_overhead="0.1")
    assert claim_info(a_claim(), None, known).filesystem_overhead == "0.1"
    assert claim_info(a_claim("other"), None, known).filesystem_overhead is None
