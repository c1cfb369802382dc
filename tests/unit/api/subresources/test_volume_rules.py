"""What addvolume and removevolume make of the two lists, and what they refuse, in KubeVirt's words."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.subresources.call_options import AddVolumeOptions, RemoveVolumeOptions
from kvedge.api.subresources.status_message import VM, Refusal
from kvedge.api.subresources.volume_rules import (
    Lists,
    add_volume,
    check_add,
    check_remove,
    check_result,
    lists_of,
    operations,
    remove_volume,
)

ROOT = {"name": "root", "containerDisk": {"image": "a"}}
DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "claim", "hotpluggable": True}}
LISTS = Lists("/spec", [ROOT, DATA], [{"name": "root", "disk": {}}, {"name": "data", "disk": {"bus": "scsi"}}])
SOURCE = {"dataVolume": {"name": "new-claim"}}


def adding(**changed: Any) -> AddVolumeOptions:
    return AddVolumeOptions(**{"name": "new", "disk": {"disk": {"bus": "scsi"}}, "volume_source": SOURCE, **changed})


def test_a_new_volume_is_hotpluggable_and_its_disk_has_its_name() -> None:
    after = add_volume(LISTS, adding(disk={"name": "other", "serial": "A1"}), VM, "vm")
    assert after.volumes == [ROOT, DATA, {"name": "new", "dataVolume": {"name": "new-claim", "hotpluggable": True}}]
    assert after.disks is not None
    assert after.disks[-1] == {"name": "new", "serial": "A1"}


def test_an_empty_drive_takes_the_volume_of_its_name_and_no_second_disk_is_made() -> None:
    empty = Lists("/spec", [], [{"name": "new", "cdrom": {"bus": "sata"}}])
    assert add_volume(empty, adding(), VM, "vm").disks == empty.disks


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (adding(name="data"), "Unable to add volume [data] because volume with that name already exists"),
        (
            adding(volume_source={"dataVolume": {"name": "claim"}}),
            "Unable to add volume source [claim] because it already exists",
        ),
    ],
    ids=["the name", "the claim below a DataVolume"],
)
def test_what_is_there_is_not_added_again(options: AddVolumeOptions, text: str) -> None:
    with pytest.raises(Refusal) as refused:
        add_volume(LISTS, options, VM, "vm")
    assert refused.value.code == 409
    assert refused.value.message == f'Operation cannot be fulfilled on {VM} "vm": {text}'


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"name": "", "disk": None}, "AddVolumeOptions requires name to be set"),
        ({"disk": None, "volume_source": None}, "AddVolumeOptions requires disk to not be nil"),
        ({"volume_source": None}, "AddVolumeOptions requires VolumeSource to not be nil"),
    ],
    ids=["name first", "then the disk", "then the source"],
)
def test_options_that_lack_something_are_told_in_kubevirts_order(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(Refusal, match=text) as refused:
        check_add(adding(**changed))
    assert refused.value.code == 400
    with pytest.raises(Refusal, match="RemoveVolumeOptions requires name to be set"):
        check_remove(RemoveVolumeOptions())


@pytest.mark.parametrize("name", ["data", "claim"], ids=["by its name", "by its claim"])
def test_a_hotpluggable_volume_goes_with_its_disk(name: str) -> None:
    after = remove_volume(LISTS, RemoveVolumeOptions(name=name), VM, "vm")
    assert (after.volumes, after.disks) == ([ROOT], [{"name": "root", "disk": {}}])


def test_a_drive_stays_when_its_volume_goes() -> None:
    drive = {"name": "data", "cdrom": {}}
    assert remove_volume(Lists("/spec", [DATA], [drive]), RemoveVolumeOptions(name="data"), VM, "vm").disks == [drive]


@pytest.mark.parametrize(
    ("name", "why"), [("none", "it does not exist"), ("root", "it is not hotpluggable")], ids=["unknown", "permanent"]
)
def test_other_volumes_are_not_removed(name: str, why: str) -> None:
    with pytest.raises(Refusal, match=f"Unable to remove volume \\[{name}\\] because {why}") as refused:
        remove_volume(LISTS, RemoveVolumeOptions(name=name), VM, "vm")
    assert refused.value.code == 409


READ: dict[str, Any] = {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}


def test_a_patch_is_for_the_version_that_was_read_and_writes_the_lists_that_change() -> None:
    after = Lists("/spec", [ROOT], LISTS.disks)
    assert operations(LISTS, after, "7") == [READ, {"op": "replace", "path": "/spec/volumes", "value": [ROOT]}]


def test_a_list_that_is_absent_is_added() -> None:
    before = lists_of({"spec": {"template": {"spec": {"domain": {"devices": {"disks": []}}}}}}, "/spec/template/spec")
    made = operations(before, add_volume(before, adding(), VM, "vm"), "7")
    assert made[0] == READ
    assert [(op["op"], op["path"]) for op in made[1:]] == [
        ("add", "/spec/template/spec/volumes"),
        ("replace", "/spec/template/spec/domain/devices/disks"),
    ]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"name": "../x"}, "name: '../x' must consist of lower case letters"),
        ({"name": "a" * 64}, "at most 63"),
        ({"volume_source": {}}, "has nothing, and must have exactly one"),
        ({"volume_source": {"emptyDisk": {"capacity": "1Gi"}}}, "has emptyDisk, and must have exactly one"),
        (
            {"volume_source": {**SOURCE, "persistentVolumeClaim": {"claimName": "b"}}},
            "has dataVolume, persistentVolumeC",
        ),
        ({"volume_source": {"dataVolume": "text"}}, "volumeSource: "),
        ({"volume_source": {"dataVolume": {"nam": "a"}}}, 'unknown field "volumeSource.dataVolume.nam"'),
        ({"disk": {"cdrom": {"bus": "sata"}}}, "must have exactly one of disk and lun"),
        ({"disk": {"disk": {"bus": "scsi"}, "lun": {"bus": "scsi"}}}, "must have exactly one of disk and lun"),
        ({"disk": {"serial": "A1"}}, "must have exactly one of disk and lun"),
        ({"disk": {"disk": {}}}, "disk.disk.bus: '' cannot be hotplugged: use scsi or virtio"),
        ({"disk": {"lun": {"bus": "sata"}}}, "disk.lun.bus: 'sata' cannot be hotplugged"),
    ],
    ids=[
        *(
            "a name that is a path",
            "a long name",
            "no source",
            "another source",
            "two sources",
            "a source that is text",
        ),
        *("a misspelt source", "a CD-ROM", "a disk and a LUN", "no target", "no bus", "a LUN on SATA"),
    ],
)
def test_what_cannot_come_to_a_guest_that_runs_is_refused(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_add(adding(**changed))
    assert refused.value.code == 400
    assert text in refused.value.message


def document(**disk: Any) -> dict[str, Any]:
    """A VMI whose one disk lacks its volume."""
    return {"spec": {"domain": {"devices": {"disks": [{"name": "gone", "disk": {}, **disk}]}}, "volumes": []}}


@pytest.mark.parametrize(
    ("disk", "text"),
    [
        ({"disk": {"bus": "virtio"}, "serial": "a" * 21}, "would cut it at 20"),
        ({"disk": {"bus": "scsi"}, "serial": "<a>"}, "must be made up of the following characters"),
        ({"lun": {"bus": "virtio"}}, "requires bus to be 'scsi'"),
        ({"lun": {"bus": "scsi", "reservation": True}}, "with reservations cannot come to a guest that runs"),
        ({"disk": {"bus": "scsi"}, "cache": "a"}, "has invalid value a"),
        ({"disk": {"bus": "scsi"}, "bootOrder": 0}, "must have a boot order > 0"),
    ],
    ids=[
        "a long serial",
        "a serial with XML",
        "a LUN on virtio",
        "reservations",
        "an unknown cache",
        "boot order zero",
    ],
)
def test_the_spec_that_it_comes_to_is_judged_as_admission_does(disk: dict[str, Any], text: str) -> None:
    options = adding(disk=disk)
    check_add(options)
    before = document()
    with pytest.raises(Refusal) as refused:
        check_result(before, "/spec", add_volume(lists_of(before, "/spec"), options, VM, "vm"))
    assert refused.value.code == 422
    assert text in refused.value.message
    assert [cause["field"].startswith("spec.domain.devices.disks[1]") for cause in refused.value.causes] == [True]


def test_what_was_wrong_before_keeps_no_volume_away() -> None:
    before = document(cache="odd")
    check_result(before, "/spec", add_volume(lists_of(before, "/spec"), adding(), VM, "vm"))
