"""Which claims of a running VM are exchanged, and what keeps the guest from taking its data along."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vm.claim_changes import (
    BUSY,
    IN_USE,
    NOT_FILLED,
    NOT_FOUND,
    TOO_SMALL,
    ClaimSights,
    Refused,
    Waits,
    find_exchanges,
    judge_exchanges,
)
from kvedge.resources.codec import decode
from kvedge.resources.meta import Condition, OwnerReference
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.storage import PersistentVolumeClaim, VolumeResources
from kvedge.resources.types.volumes import Volume
from tests.support.builders import a_claim
from tests.support.values import replace
from tests.unit.controller.vm.claim_pairs import a_pair, info_of, on_claim, sights

INVALID = "invalid volumes to update with migration: "


def judged(pair: Any, seen: ClaimSights) -> Refused | Waits | None:
    vm, vmi = pair
    return judge_exchanges(vm, vmi, find_exchanges(vm, vmi, seen), seen)


def small(name: str, size: str, **spec: Any) -> PersistentVolumeClaim:
    claim = a_claim(name, resources=VolumeResources(requests={"storage": size}), **spec)
    claim.status.capacity = {"storage": size}
    return claim


def test_a_volume_with_another_claim_is_told_with_what_is_known_of_both() -> None:
    vm, vmi = a_pair({"root": "new", "data": "same"}, {"root": "old", "data": "same"})
    (each,) = find_exchanges(vm, vmi, sights(a_claim("new")))
    assert each.volume_name == "root"
    assert each.source_pvc_info == info_of(a_claim("old"))
    assert each.destination_pvc_info == info_of(a_claim("new"))


def test_a_datavolume_is_the_claim_of_its_name() -> None:
    vm, vmi = a_pair({"root": "new"}, {"root": "old"})
    assert vm.spec.template is not None
    vm.spec.template.spec.volumes = [decode(Volume, {"name": "root", "dataVolume": {"name": "old"}})]
    assert find_exchanges(vm, vmi) == []


@pytest.mark.parametrize("volume", [None, {"name": "root", "emptyDisk": {"capacity": "1Gi"}}], ids=["gone", "no claim"])
def test_a_volume_without_claim_on_one_side_is_not_exchanged(volume: Any) -> None:
    vm, vmi = a_pair({"root": "new"})
    assert vm.spec.template is not None
    vm.spec.template.spec.volumes = [] if volume is None else [decode(Volume, volume)]
    assert find_exchanges(vm, vmi) == []


def test_a_medium_that_is_changed_in_its_drive_takes_no_data_along() -> None:
    vm, vmi = a_pair({"cd": "new"})
    assert vm.spec.template is not None
    vm.spec.template.spec.volumes = [decode(Volume, on_claim("cd", "new", hotpluggable=True))]
    vmi.spec.volumes = [decode(Volume, on_claim("cd", "old", hotpluggable=True))]
    vmi.spec.domain.devices.disks = [decode(Disk, {"name": "cd", "cdrom": {"bus": "sata"}})]
    assert find_exchanges(vm, vmi) == []


def test_a_guest_takes_its_data_to_a_claim_that_nobody_else_has() -> None:
    assert judged(a_pair({"root": "new"}), sights(a_claim("new"), a_claim("root-old"))) is None


@pytest.mark.parametrize("phase", ["Pending", "Bound"])
def test_a_claim_may_wait_for_the_pod_that_uses_it(phase: str) -> None:
    assert judged(a_pair({"root": "new"}), sights(a_claim("new", phase))) is None


@pytest.mark.parametrize(
    ("volume", "disk", "kind"),
    [
        (on_claim("root", "old", hotpluggable=True), {"disk": {"bus": "scsi"}}, "hotplugged"),
        (on_claim("root", "old"), None, "filesystems"),
        (on_claim("root", "old"), {"disk": {}, "shareable": True}, "shareable"),
        (on_claim("root", "old"), {"lun": {}}, "luns"),
        ({"name": "root", "ephemeral": {"persistentVolumeClaim": {"claimName": "old"}}}, {"disk": {}}, "ephemeral"),
        (on_claim("root", "old"), {"cdrom": {}}, "read-only"),
        (on_claim("root", "old"), {"disk": {"readonly": True}}, "read-only"),
        (on_claim("root", "old", readOnly=True), {"disk": {}}, "read-only"),
    ],
    ids=["hotplugged", "no disk", "shared", "lun", "ephemeral", "drive", "read-only disk", "read-only claim"],
)
def test_what_is_not_copied_is_refused_by_name(volume: Any, disk: Any, kind: str) -> None:
    vm, vmi = a_pair({"root": "new"})
    vmi.spec.volumes = [decode(Volume, volume)]
    vmi.spec.domain.devices.disks = [] if disk is None else [decode(Disk, {"name": "root", **disk})]
    assert judged((vm, vmi), sights(a_claim("new"))) == Refused(f"{INVALID}{kind}: [root]")


def test_all_refused_volumes_are_named() -> None:
    vm, vmi = a_pair({"a": "a-new", "b": "b-new", "c": "c-new"})
    vmi.spec.domain.devices.disks[0].shareable = vmi.spec.domain.devices.disks[1].shareable = True
    vmi.spec.domain.devices.disks[2] = decode(Disk, {"name": "c", "lun": {}})
    seen = sights(a_claim("a-new"), a_claim("b-new"), a_claim("c-new"))
    assert judged((vm, vmi), seen) == Refused(f"{INVALID}shareable: [a b] luns: [c]")


def test_other_obstacles_are_told_as_they_are() -> None:
    vm, vmi = a_pair({"root": "new"})
    vmi.status.conditions = [Condition(type="StorageLiveMigratable", status="False", message="a host device")]
    text = "cannot migrate the volumes as the VMI isn't migratable: a host device"
    assert judged((vm, vmi), sights(a_claim("new"))) == Refused(text)


def test_a_claim_that_one_node_has_cannot_stay_behind() -> None:
    pair = a_pair({"root": "new", "data": "data"}, {"root": "old", "data": "data"})
    text = "cannot migrate the VM. The volume data is RWO and not included in the migration volumes"
    assert judged(pair, sights(a_claim("new"))) == Refused(text)
    (entry,) = (entry for entry in pair[1].status.volume_status if entry.name == "data")
    assert entry.persistent_volume_claim_info is not None
    entry.persistent_volume_claim_info.access_modes = ["ReadWriteMany"]
    assert judged(pair, sights(a_claim("new"))) is None


@pytest.mark.parametrize("shared", [True, False])
def test_a_file_of_the_node_cannot_stay_behind(shared: bool) -> None:
    vm, vmi = a_pair({"root": "new"})
    disk = {"path": "/srv/x.img", "type": "Disk", "shared": shared}
    vmi.spec.volumes = [*vmi.spec.volumes, decode(Volume, {"name": "file", "hostDisk": disk})]
    text = "cannot migrate the VM. The volume file is a file of its node, and not shared"
    assert judged((vm, vmi), sights(a_claim("new"))) == (None if shared else Refused(text))


def test_on_the_only_node_nothing_matters_that_would_keep_the_guest_there() -> None:
    vm, vmi = a_pair({"root": "new", "data": "data"}, {"root": "old", "data": "data"})
    vmi.status.conditions = [Condition(type="StorageLiveMigratable", status="False", message="a host device")]
    disk = {"path": "/srv/x.img", "type": "Disk"}
    vmi.spec.volumes = [*vmi.spec.volumes, decode(Volume, {"name": "file", "hostDisk": disk})]
    assert judged((vm, vmi), replace(sights(a_claim("new")), is_alone=True)) is None


def test_a_snapshot_that_is_being_taken_is_waited_for() -> None:
    vm, vmi = a_pair({"root": "new"})
    vm.status.snapshot_in_progress = "nightly"
    found = judged((vm, vmi), sights(a_claim("new")))
    assert isinstance(found, Waits)
    assert (found.reason, "nightly" in found.text) == (BUSY, True)


def test_a_destination_that_is_missing_or_going_is_waited_for() -> None:
    found = judged(a_pair({"root": "new"}), sights())
    text = "One of the destination volumes doesn't exist: PersistentVolumeClaim new of volume root does not exist"
    assert found == Waits(NOT_FOUND, text)
    going = a_claim("new")
    going.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
    for claim in (going, a_claim("new", "Lost")):
        found = judged(a_pair({"root": "new"}), sights(claim))
        assert isinstance(found, Waits)
        assert found.reason == NOT_FOUND


@pytest.mark.parametrize("is_alone", [True, False], ids=["in place", "to another node"])
def test_a_disk_moves_to_a_device(is_alone: bool) -> None:
    known = sights(small("new", "10Gi", volume_mode="Block"))
    assert judged(a_pair({"root": "new"}), replace(known, is_alone=is_alone)) is None


def test_what_would_be_filled_over_the_guests_disk_is_waited_for() -> None:
    filling = a_claim("new")
    owner = OwnerReference(api_version="cdi.kubevirt.io/v1beta1", kind="DataVolume", name="new", uid="d1")
    owner.controller = True
    filling.metadata.owner_references = [owner]
    found = judged(a_pair({"root": "new"}), sights(filling))
    assert isinstance(found, Waits)
    assert found.reason == NOT_FILLED
    # Where the claim waits for its user, the filling waits for the change.
    filling.status.phase = "Pending"
    assert judged(a_pair({"root": "new"}), sights(filling)) is None


def test_a_claim_that_somebody_else_has_is_no_destination() -> None:
    found = judged(a_pair({"root": "new"}), sights(a_claim("new"), new="VM db"))
    text = "PVC new of volume root is no place for its data: VM db has it: name another claim"
    assert found == Waits(IN_USE, text)


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ({"a": "new", "b": "new"}, {"a": "a-old", "b": "b-old"}),
        ({"a": "y", "b": "x"}, {"a": "x", "b": "y"}),
    ],
    ids=["one for two", "crosswise"],
)
def test_a_claim_of_another_volume_of_the_vm_is_no_destination(wanted: dict[str, str], there: dict[str, str]) -> None:
    found = judged(a_pair(wanted, there), sights(a_claim("new"), a_claim("x"), a_claim("y")))
    assert isinstance(found, Waits)
    assert found.reason == IN_USE


@pytest.mark.parametrize(
    ("claim", "fits"),
    [
        (small("new", "9Gi"), False),
        (small("new", "10Gi"), True),
        (small("new", "9Gi", volume_mode="Block"), True),
        (small("new", "8Gi", volume_mode="Block"), False),
    ],
    ids=["its file system takes a part", "as large as the old one", "device", "small device"],
)
def test_a_destination_takes_the_whole_disk(claim: PersistentVolumeClaim, fits: bool) -> None:
    found = judged(a_pair({"root": "new"}), sights(claim))
    assert (found is None) is fits
    if not fits:
        assert isinstance(found, Waits)
        assert found.reason == TOO_SMALL


def test_a_size_that_is_not_known_is_not_judged() -> None:
    claim = small("new", "1Gi")
    seen = sights(claim)
    seen.copies["new"].filesystem_overhead = None  # type: ignore[index]
    assert judged(a_pair({"root": "new"}), seen) is None
