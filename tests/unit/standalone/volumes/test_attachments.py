"""Volumes that are lost are told once and tried ever more seldom; places that are away are looked for each minute."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kvedge.kube.events import EventRecorder
from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolume
from kvedge.runtime.clock import Clock
from kvedge.standalone.volumes.attachments import Attachments
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.storage.volumes.volume_driver import PlaceMissing, VolumeDriver, VolumeDriverError

MINUTE = 60.0


class PlayedPlace:
    """A place that may be away, and volumes of which some are lost; counts what is asked of it."""

    def __init__(self, top: Path) -> None:
        self.top, self.is_away = top, False
        self.lost: set[str] = set()
        self.prepared: int = 0
        self.tried: list[str] = []

    def prepare(self) -> None:
        self.prepared += 1
        if self.is_away:
            raise PlaceMissing("its disk is away")

    def path(self, name: str, *, block: bool) -> Path:
        return self.top / name

    def attach(self, name: str) -> Path:
        self.tried.append(name)
        if name in self.lost:
            raise VolumeDriverError(f"volume {name} is not in its place")
        (self.top / name).mkdir(exist_ok=True)
        return self.top / name


class PlayedBox:
    """One place, these volumes, and a clock that a look moves by a minute."""

    def __init__(self, top: Path, *names: str) -> None:
        self.place, self.seconds = PlayedPlace(top), 0.0
        self.told: list[tuple[str, str]] = []
        self.volumes = [volume(name) for name in names]
        self.attachments = Attachments(
            BoxPlaces({"kvedge": cast("VolumeDriver", self.place)}),
            lambda: self.volumes,
            cast("EventRecorder", SimpleNamespace(record=self._record)),
            cast("Clock", SimpleNamespace(monotonic=lambda: self.seconds)),
        )

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.attachments.look()
            self.seconds += MINUTE

    def _record(self, about: Any, kind: str, reason: str, message: str) -> None:
        self.told.append((about.metadata.name, reason))


def volume(name: str) -> PersistentVolume:
    annotations = {"pv.kubernetes.io/provisioned-by": "kvedge.io/box", "kvedge.io/place": "kvedge"}
    return decode(PersistentVolume, {"metadata": {"name": f"pvc-{name}", "annotations": annotations}, "spec": {}})


def test_all_volumes_are_attached_at_the_start_and_then_nothing_is_asked_of_their_place(tmp_path: Path) -> None:
    box = PlayedBox(tmp_path, "one", "two")
    box.look(5)
    assert (box.place.tried, box.place.prepared, box.told) == (["one", "two"], 1, [])


def test_a_lost_volume_is_told_once_and_tried_more_and_more_seldom(tmp_path: Path) -> None:
    box = PlayedBox(tmp_path, "one", "two")
    box.place.lost = {"two"}
    box.look(120)
    assert box.told == [("pvc-two", "VolumeMissing")]
    assert box.place.tried.count("one") == 1
    # In two hours: after 1, 2, 4, 8 and 15 minutes, and then each half hour.
    assert 7 <= box.place.tried.count("two") <= 9
    assert box.place.prepared == box.place.tried.count("two")


def test_a_lost_volume_that_is_brought_back_by_hand_needs_no_try(tmp_path: Path) -> None:
    box = PlayedBox(tmp_path, "two")
    box.place.lost = {"two"}
    box.look(2)
    (tmp_path / "two").mkdir()
    box.look(70)
    tried = len(box.place.tried)
    (tmp_path / "two").rmdir()
    box.look()
    assert len(box.place.tried) == tried + 1, "a loss of later begins anew"
    assert len(box.told) == 2


def test_a_place_that_comes_back_has_all_its_volumes_within_a_minute(tmp_path: Path) -> None:
    box = PlayedBox(tmp_path, "one")
    box.place.is_away = True
    box.look(50)
    assert (box.place.prepared, box.place.tried) == (50, [])
    box.place.is_away = False
    box.look()
    assert box.place.tried == ["one"]


def test_a_pool_that_was_made_inactive_gives_its_volumes_back_when_it_returns(tmp_path: Path) -> None:
    box = PlayedBox(tmp_path, "one")
    box.look()
    (tmp_path / "one").rmdir()
    box.place.is_away = True
    box.look(40)
    box.place.is_away = False
    box.look()
    assert box.place.tried == ["one", "one"]


def test_a_volume_of_a_place_that_is_in_no_setting_is_told_once(tmp_path: Path) -> None:
    box = PlayedBox(tmp_path, "one")
    box.volumes[0].metadata.annotations["kvedge.io/place"] = "nas"
    box.look(3)
    assert box.told == [("pvc-one", "VolumeMissing")]


def test_what_was_known_of_a_volume_goes_with_its_object(tmp_path: Path) -> None:
    box = PlayedBox(tmp_path, "one")
    box.place.lost = {"one"}
    box.look()
    box.volumes = []
    box.look()
    box.volumes = [volume("one")]
    box.look()
    assert box.place.tried == ["one", "one"], "one of the same name is tried at once"
