"""Device names of disks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.launcher.domain.disk_targets import assign_targets, bus_of, target_index, target_name
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.unit.launcher.domain.vmis import vmi


def _vmi(*disks: dict[str, Any], status: dict[str, str] | None = None, **spec: Any) -> VirtualMachineInstance:
    recorded = [{"name": name, "target": target} for name, target in (status or {}).items()]
    return vmi({"devices": {"disks": list(disks)}}, status={"volumeStatus": recorded}, **spec)


def _disk(name: str, bus: str) -> dict[str, Any]:
    return {"name": name, "disk": {"bus": bus}}


def test_virtio_disks_have_a_series_of_their_own_and_all_others_share_one() -> None:
    found = assign_targets(
        _vmi(_disk("a", "virtio"), _disk("b", "sata"), _disk("c", "scsi"), _disk("d", "virtio"), _disk("e", "usb"))
    )
    assert found == {"a": "vda", "b": "sda", "c": "sdb", "d": "vdb", "e": "sdc"}


def test_a_name_that_the_status_records_stays_when_an_earlier_disk_is_gone() -> None:
    found = assign_targets(
        _vmi(
            _disk("new", "virtio"),
            _disk("old", "virtio"),
            _disk("newer", "virtio"),
            status={"old": "vdb", "gone": "vda"},
        )
    )
    assert found == {"new": "vda", "old": "vdb", "newer": "vdc"}


@pytest.mark.parametrize("recorded", ["sda", "", "vd", "vd1", "vdA", "hda"])
def test_a_recorded_name_of_another_series_is_not_kept(recorded: str) -> None:
    assert assign_targets(_vmi(_disk("d", "virtio"), status={"d": recorded})) == {"d": "vda"}


def test_two_disks_never_share_a_recorded_name() -> None:
    found = assign_targets(_vmi(_disk("a", "scsi"), _disk("b", "scsi"), status={"a": "sdc", "b": "sdc"}))
    assert found == {"a": "sdc", "b": "sda"}


@pytest.mark.parametrize(
    ("index", "name"),
    [(0, "vda"), (25, "vdz"), (26, "vdaa"), (51, "vdaz"), (52, "vdba"), (701, "vdzz"), (702, "vdaaa")],
)
def test_names_go_on_with_two_letters_after_z(index: int, name: str) -> None:
    assert target_name("vd", index) == name
    assert target_index(name) == index


@given(st.integers(min_value=0, max_value=100_000))
def test_every_place_has_a_name_that_leads_back_to_it(index: int) -> None:
    assert target_index(target_name("sd", index)) == index


@given(st.lists(st.sampled_from(["virtio", "sata", "scsi", "usb"]), max_size=60), st.data())
def test_any_mix_of_disks_gets_different_names_and_keeps_them(buses: list[str], data: st.DataObject) -> None:
    disks = [_disk(f"d{index}", bus) for index, bus in enumerate(buses)]
    first = assign_targets(_vmi(*disks))
    assert len(set(first.values())) == len(disks)
    left = [disk for disk in disks if data.draw(st.booleans())]
    second = assign_targets(_vmi(*left, _disk("late", "scsi"), status=first))
    assert {name: target for name, target in second.items() if name != "late"} == {
        disk["name"]: first[disk["name"]] for disk in left
    }


@pytest.mark.parametrize(
    ("disk", "architecture", "bus"),
    [
        ({"disk": {}}, "amd64", "sata"),
        ({}, "amd64", "sata"),
        ({"cdrom": {}}, "amd64", "sata"),
        ({"lun": {}}, "amd64", "scsi"),
        ({"disk": {"bus": "virtio"}}, "amd64", "virtio"),
        ({"disk": {}}, "arm64", "virtio"),
        ({"cdrom": {}}, "arm64", "scsi"),
    ],
)
def test_a_disk_without_a_bus_gets_the_one_of_its_architecture(
    disk: dict[str, Any], architecture: str, bus: str
) -> None:
    instance = vmi({"devices": {"disks": [{"name": "d", **disk}]}}, architecture=architecture)
    assert bus_of(instance.spec.domain.devices.disks[0], instance) == bus
