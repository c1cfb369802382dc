"""Which place a class takes its volumes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.storage import StorageClass
from kvedge.runtime.settings import Settings
from kvedge.standalone.volumes.box_places import BoxPlaces, drivers_of
from kvedge.storage.volumes.directory_driver import DirectoryDriver
from kvedge.storage.volumes.thin_driver import ThinDriver
from kvedge.storage.volumes.volume_driver import VolumeDriverError

PLACES = "usb=/mnt/usb,fast=lvm-thin:ssd/thin,slow=lvm-thin:disks/thin"


def places(tmp_path: Path) -> BoxPlaces:
    return BoxPlaces(drivers_of(Settings(data_dir=str(tmp_path), volume_places=PLACES)))


def a_class(**parameters: str) -> StorageClass:
    named = {name.replace("_", "-"): value for name, value in parameters.items()}
    return StorageClass(metadata=ObjectMeta(name="mine"), provisioner="kvedge.io/box", parameters=named)


def test_each_place_of_the_settings_has_the_driver_of_its_kind(tmp_path: Path) -> None:
    drivers = places(tmp_path).drivers
    assert {name: type(driver) for name, driver in drivers.items()} == {
        "kvedge": DirectoryDriver,
        "usb": DirectoryDriver,
        "fast": ThinDriver,
        "slow": ThinDriver,
    }
    fast = drivers["fast"]
    assert isinstance(fast, ThinDriver)
    assert (fast.identity.group, fast.identity.pool) == ("ssd", "thin")
    assert fast.path("uid", block=False) == Path("/run/kvedge/volumes/fast/uid/data")


@pytest.mark.parametrize(
    ("made_of", "name"),
    [
        pytest.param(a_class(), "kvedge", id="no place"),
        pytest.param(a_class(place="usb"), "usb", id="a directory"),
        pytest.param(a_class(place="fast"), "fast", id="a pool by its place"),
        pytest.param(a_class(driver="lvm-thin", volume_group="disks", thin_pool="thin"), "slow", id="a pool by itself"),
    ],
)
def test_a_class_names_a_place_or_a_thin_pool(tmp_path: Path, made_of: StorageClass, name: str) -> None:
    assert places(tmp_path).of_class(made_of)[0] == name


@pytest.mark.parametrize(
    "made_of",
    [a_class(place="nas"), a_class(driver="lvm-thin", volume_group="other", thin_pool="thin")],
    ids=["a place", "a pool"],
)
def test_what_is_not_in_the_settings_is_no_place(tmp_path: Path, made_of: StorageClass) -> None:
    with pytest.raises(VolumeDriverError, match="add it to the setting volume-places"):
        places(tmp_path).of_class(made_of)
