"""Data are taken away of a volume as it is now, and not as it was once seen."""

from __future__ import annotations

import copy
from unittest.mock import MagicMock

import pytest

from kvedge.kube.errors import Conflict, NotFound
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.standalone.volumes.provisioner import Provisioner


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
