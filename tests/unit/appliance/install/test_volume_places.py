"""Volumes of claims in every place of a box: named, and removed without what else lies on their disks."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kvedge.appliance.install.volume_places import places_of, purge_volumes, volumes_in
from kvedge.cli.host import install_verbs
from kvedge.runtime.settings import Settings

UID = "6a0e8a0c-8a5d-47d1-b2c4-0a4d6a3f0001"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A box with one volume in its data directory, and one on a disk that holds music, too."""
    for name in (
        f"data/volumes/{UID}/disk.img",
        f"data/volumes/.records/{UID}",
        "ssd/.kvedge-place",
        f"ssd/{UID}/disk.img",
        f"ssd/.gone-{UID}-1/disk.img",
        f"ssd/.records/{UID}",
        "ssd/music/song",
        "unused/music/song",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    places = f"fast={tmp_path / 'ssd'},spare={tmp_path / 'unused'},absent={tmp_path / 'absent'}"
    return Settings(data_dir=str(tmp_path / "data"), volume_places=places)


def test_volumes_of_all_places_are_found(settings: Settings, tmp_path: Path) -> None:
    found = [path for place in places_of(settings) for path in volumes_in(place)]
    assert found == [tmp_path / "data/volumes" / UID, tmp_path / "ssd" / UID]


def test_only_what_is_kvedges_goes_from_a_disk(settings: Settings, tmp_path: Path) -> None:
    for place in places_of(settings):
        purge_volumes(place)
    assert not (tmp_path / "data/volumes").exists()
    assert [path.name for path in (tmp_path / "ssd").iterdir()] == ["music"]
    assert (tmp_path / "ssd/music/song").exists()
    assert (tmp_path / "unused/music/song").exists()


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
