"""Volumes of claims in every place of a box: named, and removed without what else lies on their disks."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kvedge.appliance.install.volume_places import ThinPlace, places_of
from kvedge.cli.host import install_verbs
from kvedge.runtime.settings import Settings
from kvedge.storage.volumes.thin_driver import ThinDriver
from kvedge.storage.volumes.thin_identity import ThinIdentity
from kvedge.storage.volumes.volume_driver import NewVolume
from tests.support.played_lvm import PlayedLvm

UID = "6a0e8a0c-8a5d-47d1-b2c4-0a4d6a3f0001"


def mark(file: Path, place: str) -> None:
    """Write which place this is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'{{"place": "{place}"}}')


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A box with a volume in its data directory and one on a disk that holds music, too; and with others' disks."""
    for name in (
        f"data/volumes/{UID}/disk.img",
        f"data/volumes/.records/{UID}",
        f"ssd/{UID}/disk.img",
        f"ssd/.gone-{UID}-1/disk.img",
        f"ssd/.records/{UID}",
        "ssd/music/song",
        f"swapped/{UID}/disk.img",
        f"nas/volumes/{UID}/song",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    memory = tmp_path / "data/state/volume-places"
    mark(tmp_path / "ssd/.kvedge-place", "one")
    mark(memory / "fast", "one")
    mark(tmp_path / "swapped/.kvedge-place", "of another box")
    mark(memory / "slow", "two")
    mark(memory / "gone", "three")
    places = {"fast": "ssd", "slow": "swapped", "gone": "absent", "nas": "nas/volumes"}
    text = ",".join(f"{name}={tmp_path / path}" for name, path in places.items())
    return Settings(data_dir=str(tmp_path / "data"), volume_places=text)


def test_volumes_in_thin_pools_are_named_and_go_and_those_of_others_stay(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    place = ThinPlace(ThinDriver(ThinIdentity("ssd", "thin", tmp_path / "memory"), tmp_path, tmp_path, lvm))
    # A pool that this box has never used is not even looked at.
    assert (place.volumes(), place.trouble()) == ([], "")
    place.driver.make(NewVolume(UID, 4096, block=True))
    assert place.volumes() == [Path(f"/dev/ssd/kvedge-{UID}")]
    place.purge()
    assert list(lvm.rows) == ["thin", "foreign"]
    lvm.group["uuid"] = "another"
    assert "there is another volume group of that name" in place.trouble()


def test_volumes_of_all_places_of_this_box_are_found(settings: Settings, tmp_path: Path) -> None:
    found = [path for place in places_of(settings) for path in place.volumes()]
    assert found == [tmp_path / "data/volumes" / UID, tmp_path / "ssd" / UID]


def test_a_disk_that_is_another_one_or_away_is_told(settings: Settings) -> None:
    assert [place.trouble() for place in places_of(settings)] == [
        "",
        "",
        "another disk is mounted there",
        "its disk is not mounted",
        "",
    ]


def test_only_what_is_this_boxs_goes_from_a_disk(settings: Settings, tmp_path: Path) -> None:
    for place in places_of(settings):
        place.purge()
    assert not (tmp_path / "data/volumes").exists()
    assert [path.name for path in (tmp_path / "ssd").iterdir()] == ["music"]
    assert (tmp_path / "ssd/music/song").exists()
    assert (tmp_path / f"swapped/{UID}/disk.img").exists()
    assert (tmp_path / "swapped/.kvedge-place").exists()
    assert (tmp_path / f"nas/volumes/{UID}/song").exists()


@pytest.mark.parametrize("answer", [True, False])
def test_a_purge_names_the_volumes_of_all_places_and_asks(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: bool,
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda question: answer)
    install_verbs._purge_volumes(settings)
    told = capsys.readouterr().out
    volumes = [tmp_path / "data/volumes" / UID, tmp_path / "ssd" / UID]
    assert all(f"  {path}\n" in told for path in volumes)
    assert [path.exists() for path in volumes] == [not answer] * 2
    assert ("volumes stay in" in told) is not answer
    assert f"kept: the volumes in {tmp_path / 'swapped'}: another disk is mounted there\n" in told
    assert f"kept: the volumes in {tmp_path / 'absent'}: its disk is not mounted\n" in told


def test_a_damaged_memory_of_a_place_keeps_its_volumes_and_is_told(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "data/state/volume-places/fast").write_text("{")
    fast = places_of(settings)[1]
    assert "is damaged" in fast.trouble()
    assert fast.volumes() == []
    fast.purge()
    assert (tmp_path / f"ssd/{UID}/disk.img").exists()
