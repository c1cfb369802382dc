"""The copy of each claim in a VMI's status."""

from __future__ import annotations

from kvedge.controller.vmi.volume_status import claim_info, with_claims
from kvedge.resources.types.vmi import HotplugVolumeStatus, VolumeStatus
from tests.support.builders import a_claim, vmi_with, with_volumes


def test_each_permanent_volume_has_an_entry_sorted_by_name_with_its_claim() -> None:
    root = {"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}}
    data = {"name": "data", "dataVolume": {"name": "web-data"}}
    seed = {"name": "seed", "emptyDisk": {"capacity": "1Gi"}}
    vmi = vmi_with(with_volumes(root, data, seed))
    entries = with_claims(vmi, {"web-root": a_claim(), "web-data": a_claim("web-data", volume_mode="Block")})
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
    (entry,) = with_claims(vmi, {"web-root": a_claim()})
    assert (entry.target, entry.phase, entry.hotplug_volume) == ("sda", "Ready", HotplugVolumeStatus())
    assert entry.persistent_volume_claim_info is not None


def test_a_hotplugged_volume_without_an_entry_is_left_to_those_who_bring_it() -> None:
    later = {"name": "later", "persistentVolumeClaim": {"claimName": "web-root", "hotpluggable": True}}
    assert with_claims(vmi_with(with_volumes(later)), {"web-root": a_claim()}) == []


def test_a_claim_that_is_gone_leaves_its_last_copy() -> None:
    vmi = vmi_with(with_volumes({"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}}))
    vmi.status.volume_status = with_claims(vmi, {"web-root": a_claim()})
    assert with_claims(vmi, {}) == vmi.status.volume_status


def test_a_thick_claim_is_known_by_its_annotation() -> None:
    claim = a_claim()
    for key, value, thick in (
        ("cdi.kubevirt.io/storage.preallocation", "true", True),
        ("vendor.example/storage.thick-provisioned", "true", True),
        ("cdi.kubevirt.io/storage.preallocation", "false", False),
    ):
        claim.metadata.annotations = {key: value}
        assert claim_info(claim).preallocated is thick
