"""Volumes are made for claims; data are taken away of a volume as it is now, and not as it was once seen."""

from __future__ import annotations

import copy
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kvedge.kube.errors import Conflict, NotFound
from kvedge.resources.disks.snapshot_names import SNAPSHOTS_AT_ONCE
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.values.quantities import parse_bytes
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.standalone.volumes.copy_jobs import CopyJobs
from kvedge.standalone.volumes.provisioner import Provisioner
from kvedge.storage.volumes.thin_driver import ThinDriver
from kvedge.storage.volumes.thin_identity import ThinIdentity
from kvedge.storage.volumes.volume_driver import VolumeDriverError
from tests.support.played_lvm import PlayedLvm
from tests.unit.standalone.volumes.claims import UID, claim, storage_class


def a_volume(version: str = "7", uid: str = "volume") -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name="pvc-claim", uid=uid, resource_version=version))


class Server:
    """Has this volume, and no claims."""

    def __init__(self, volume: PersistentVolume | None) -> None:
        self.volume = volume

    def get(self, cls: type, namespace: str, name: str) -> PersistentVolume:
        if cls is PersistentVolumeClaim or self.volume is None:
            raise NotFound(404, "NotFound", name)
        return self.volume


def erased(seen: PersistentVolume, live: PersistentVolume | None) -> bool:
    places = MagicMock()
    Provisioner(Server(live), places, "box", list, MagicMock(), MagicMock()).erase(seen)  # type: ignore[arg-type]
    return bool(places.of_volume.return_value.remove.called)


def test_the_data_of_a_volume_that_nobody_has_changed_go() -> None:
    volume = a_volume()
    assert erased(volume, copy.deepcopy(volume))


@pytest.mark.parametrize("live", [a_volume("8"), a_volume(uid="another")], ids=["changed since", "another of its name"])
def test_what_has_changed_since_it_was_seen_is_judged_again_first(live: PersistentVolume) -> None:
    with pytest.raises(Conflict, match="has changed since it was judged"):
        erased(a_volume(), live)


def test_what_is_gone_is_not_touched() -> None:
    with pytest.raises(NotFound):
        erased(a_volume(), None)


class Accepting:
    """Takes every volume that is made."""

    def create(self, made: PersistentVolume) -> PersistentVolume:
        return made


def of_thin_pool(lvm: PlayedLvm, place: Path, overcommit: int = 200) -> Provisioner:
    driver = ThinDriver(ThinIdentity("ssd", "thin", place / "memory"), place / "devices", place / "mounts", lvm)
    places = BoxPlaces({"fast": driver}, overcommit)
    return Provisioner(Accepting(), places, "box", list, CopyJobs(), MagicMock())  # type: ignore[arg-type]


FAST = storage_class("fast", parameters={"place": "fast"})


def test_a_claim_of_a_thin_pool_is_bound_to_the_logical_volumes_device(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    wanted = claim("8Mi", storageClassName="fast", volumeMode="Block")
    # A kill may come between the volume and its object: the second attempt finds the first one's.
    for _ in range(2):
        made = of_thin_pool(lvm, tmp_path).provision(wanted, FAST)
    assert made is not None
    assert made.spec.local is not None
    assert (made.spec.local.path, made.spec.volume_mode) == (f"{tmp_path}/devices/{UID}", "Block")
    assert [words[0] for words in lvm.ran] == ["lvcreate", "lvrename"]


def test_the_volume_says_how_large_its_device_is_and_that_it_is_snapshotted_at_once(tmp_path: Path) -> None:
    wanted = claim("9Mi", storageClassName="fast", volumeMode="Block")
    made = of_thin_pool(PlayedLvm.with_pool(), tmp_path).provision(wanted, FAST)
    assert made is not None
    assert parse_bytes(made.spec.capacity["storage"]) == 12 << 20
    assert made.metadata.annotations[SNAPSHOTS_AT_ONCE] == "true"


def test_a_grown_volume_says_how_large_its_device_is(tmp_path: Path) -> None:
    made_by = of_thin_pool(PlayedLvm.with_pool(), tmp_path)
    made = made_by.provision(claim("8Mi", storageClassName="fast", volumeMode="Block"), FAST)
    assert made is not None
    made_by.client.patch = MagicMock()  # type: ignore[method-assign]
    made_by.grow(made, 13 << 20)
    patch = made_by.client.patch.call_args.args[3]
    assert patch.body["spec"]["capacity"]["storage"] == "16Mi"


def test_what_a_file_system_needs_for_itself_counts_as_promised(tmp_path: Path) -> None:
    made_by = of_thin_pool(PlayedLvm.with_pool(), tmp_path, overcommit=100)
    with pytest.raises(VolumeDriverError, match='not enough space in place "fast"'):
        made_by.provision(claim("880Mi", storageClassName="fast"), FAST)
    made = made_by.provision(claim("880Mi", storageClassName="fast", volumeMode="Block"), FAST)
    assert made is not None


@pytest.mark.parametrize(
    ("lvm", "size", "word"),
    [
        (PlayedLvm.with_pool(data="96.00"), "8Mi", "thin pool ssd/thin is 96 % full"),
        (PlayedLvm.with_pool(), "2Gi", 'not enough space in place "fast"'),
    ],
    ids=["full", "promised beyond the over-commitment"],
)
def test_a_thin_pool_without_room_makes_no_volume(tmp_path: Path, lvm: PlayedLvm, size: str, word: str) -> None:
    with pytest.raises(VolumeDriverError, match=word):
        of_thin_pool(lvm, tmp_path).provision(claim(size, storageClassName="fast", volumeMode="Block"), FAST)
    assert lvm.ran == []
