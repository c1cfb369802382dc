"""What addvolume and removevolume make of the two lists, and what they refuse, in KubeVirt's words."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.subresources.call_options import AddVolumeOptions, RemoveVolumeOptions
from kvedge.api.subresources.status_message import VM, Refusal
from kvedge.api.subresources.volume_rules import Lists, added, check_add, check_remove, lists_of, operations, removed

ROOT = {"name": "root", "containerDisk": {"image": "a"}}
DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "claim", "hotpluggable": True}}
LISTS = Lists("/spec", [ROOT, DATA], [{"name": "root", "disk": {}}, {"name": "data", "disk": {"bus": "scsi"}}])
SOURCE = {"dataVolume": {"name": "new-claim"}}


def adding(**changed: Any) -> AddVolumeOptions:
    return AddVolumeOptions(**{"name": "new", "disk": {"disk": {"bus": "scsi"}}, "volume_source": SOURCE, **changed})


def test_a_new_volume_is_hotpluggable_and_its_disk_has_its_name() -> None:
    after = added(LISTS, adding(disk={"name": "other", "serial": "A1"}), VM, "vm")
    assert after.volumes == [ROOT, DATA, {"name": "new", "dataVolume": {"name": "new-claim", "hotpluggable": True}}]
    assert after.disks is not None
    assert after.disks[-1] == {"name": "new", "serial": "A1"}


def test_an_empty_drive_takes_the_volume_of_its_name_and_no_second_disk_is_made() -> None:
    empty = Lists("/spec", [], [{"name": "new", "cdrom": {"bus": "sata"}}])
    assert added(empty, adding(), VM, "vm").disks == empty.disks


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
        added(LISTS, options, VM, "vm")
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
    after = removed(LISTS, RemoveVolumeOptions(name=name), VM, "vm")
    assert (after.volumes, after.disks) == ([ROOT], [{"name": "root", "disk": {}}])


def test_a_drive_stays_when_its_volume_goes() -> None:
    drive = {"name": "data", "cdrom": {}}
    assert removed(Lists("/spec", [DATA], [drive]), RemoveVolumeOptions(name="data"), VM, "vm").disks == [drive]


@pytest.mark.parametrize(
    ("name", "why"), [("none", "it does not exist"), ("root", "it is not hotpluggable")], ids=["unknown", "permanent"]
)
def test_other_volumes_are_not_removed(name: str, why: str) -> None:
    with pytest.raises(Refusal, match=f"Unable to remove volume \\[{name}\\] because {why}") as refused:
        removed(LISTS, RemoveVolumeOptions(name=name), VM, "vm")
    assert refused.value.code == 409


def test_a_patch_tests_both_lists_and_writes_those_that_change() -> None:
    after = Lists("/spec", [ROOT], LISTS.disks)
    assert operations(LISTS, after, "7") == [
        {"op": "test", "path": "/spec/volumes", "value": LISTS.volumes},
        {"op": "test", "path": "/spec/domain/devices/disks", "value": LISTS.disks},
        {"op": "replace", "path": "/spec/volumes", "value": [ROOT]},
    ]


def test_a_list_that_is_absent_is_added_to_the_very_version_that_was_read() -> None:
    before = lists_of({"spec": {"template": {"spec": {"domain": {"devices": {"disks": []}}}}}}, "/spec/template/spec")
    after = added(before, adding(), VM, "vm")
    made = operations(before, after, "7")
    assert made[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert [(op["op"], op["path"]) for op in made[2:]] == [
        ("add", "/spec/template/spec/volumes"),
        ("replace", "/spec/template/spec/domain/devices/disks"),
    ]
