"""Which claims a VMI's volumes get when its guest moves, and how the VMI is then."""

from __future__ import annotations

import pytest

from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.disks.moved_volumes import as_moved, destinations, find_uncopied
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.vmi import (
    ClaimInfo,
    MigratedVolume,
    VirtualMachineInstance,
    VirtualMachineInstanceSpec,
    VirtualMachineInstanceStatus,
    VolumeStatus,
)
from kvedge.resources.types.volumes import DataVolumeSource, PersistentVolumeClaimSource, Volume

_OLD, _NEW = ClaimInfo(claim_name="old"), ClaimInfo(claim_name="new", access_modes=["ReadWriteOnce"])


def _vmi(volume: Volume, *moved: MigratedVolume) -> VirtualMachineInstance:
    spec = VirtualMachineInstanceSpec(volumes=[volume, Volume(name="other")])
    statuses = [VolumeStatus(name="root", target="vda", persistent_volume_claim_info=_OLD)]
    return VirtualMachineInstance(
        spec=spec, status=VirtualMachineInstanceStatus(volume_status=statuses, migrated_volumes=list(moved))
    )


def _on_claim(name: str) -> Volume:
    return Volume(name="root", persistent_volume_claim=PersistentVolumeClaimSource(claim_name=name))


def _moved(source: ClaimInfo | None = _OLD, destination: ClaimInfo | None = _NEW) -> MigratedVolume:
    return MigratedVolume(volume_name="root", source_pvc_info=source, destination_pvc_info=destination)


def test_a_volume_gets_its_destination_and_what_is_known_of_it() -> None:
    moved = as_moved(_vmi(_on_claim("old"), _moved()))
    assert [claim_of(volume) for volume in moved.spec.volumes] == ["new", None]
    assert moved.status.volume_status[0].persistent_volume_claim_info == _NEW
    assert moved.status.migrated_volumes == []


def test_a_data_volume_becomes_the_claim_that_it_gets_and_stays_hotpluggable() -> None:
    volume = Volume(name="root", data_volume=DataVolumeSource(name="old", hotpluggable=True))
    root, _ = as_moved(_vmi(volume, _moved())).spec.volumes
    assert root.data_volume is None
    assert root.persistent_volume_claim == PersistentVolumeClaimSource(claim_name="new", hotpluggable=True)


def test_a_volume_that_is_on_another_claim_than_planned_on_stays() -> None:
    for claim in ("new", "third"):
        vmi = _vmi(_on_claim(claim), _moved())
        assert destinations(vmi) == {}
        assert as_moved(vmi) is vmi


def test_what_names_no_destination_moves_nothing() -> None:
    for moved in (_moved(destination=None), _moved(source=None), _moved(destination=ClaimInfo())):
        assert destinations(_vmi(_on_claim("old"), moved)) == {}


def test_a_volume_never_moves_to_its_own_claim() -> None:
    assert destinations(_vmi(_on_claim("old"), _moved(destination=_OLD))) == {}


@pytest.mark.parametrize(
    ("disk", "kind"),
    [
        ({"disk": {"bus": "virtio"}}, ""),
        ({"disk": {}, "shareable": True}, "shareable"),
        ({"lun": {}}, "lun"),
        ({"cdrom": {}}, "cdrom"),
        ({"disk": {"readonly": True}}, "read-only"),
        ({}, ""),
    ],
)
def test_only_a_disk_that_the_guest_alone_writes_is_copied(disk: JsonObject, kind: str) -> None:
    assert find_uncopied(decode(Disk, {"name": "root", **disk})) == kind
