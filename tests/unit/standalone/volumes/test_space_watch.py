"""What the watch tells of volumes that a kill has left without an object."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolume
from kvedge.runtime.clock import SystemClock
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.standalone.volumes.space_watch import SpaceWatch
from kvedge.storage.volumes.volume_driver import PlaceSpace

UIDS = [f"11111111-1111-4111-8111-11111111111{n}" for n in range(3)]


class PlayedBox:
    """A place with room and these volumes, an API without a Node, and the events that were recorded."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.known: list[PersistentVolume] = []
        self.told: list[tuple[str, str]] = []
        driver = SimpleNamespace(space=lambda: PlaceSpace(100, 100, 0), names=lambda: list(self.names))
        self.watch = SpaceWatch(
            cast("KubeClient", SimpleNamespace(patch=lambda *arguments: None)),
            cast("EventRecorder", SimpleNamespace(record=self._record)),
            cast("BoxPlaces", SimpleNamespace(drivers={"kvedge": driver})),
            "box",
            SystemClock(),
            lambda: None,
            lambda: self.known,
        )

    def _record(self, about: Any, kind: str, reason: str, message: str) -> None:
        self.told.append((reason, message))


def volume(uid: str) -> PersistentVolume:
    return decode(PersistentVolume, {"metadata": {"name": f"pvc-{uid}"}, "spec": {}})


def test_a_volume_without_an_object_is_told_once_it_has_been_seen_twice() -> None:
    box = PlayedBox(*UIDS[:2])
    box.known = [volume(UIDS[0])]
    box.watch.look()
    assert box.told == [], "it is made before its object"
    box.watch.look()
    box.watch.look()
    ((reason, message),) = box.told
    assert reason == "VolumeWithoutObject"
    assert (UIDS[1] in message, UIDS[0] in message) == (True, False)


def test_a_volume_that_gets_its_object_is_not_told() -> None:
    box = PlayedBox(UIDS[0])
    box.watch.look()
    box.known = [volume(UIDS[0])]
    box.watch.look()
    box.watch.look()
    assert box.told == []


def test_another_one_is_told_anew() -> None:
    box = PlayedBox(UIDS[0])
    box.watch.look()
    box.watch.look()
    box.names.append(UIDS[1])
    box.watch.look()
    box.watch.look()
    assert [reason for reason, _ in box.told] == ["VolumeWithoutObject"] * 2
    assert UIDS[1] in box.told[1][1]
