"""Where volumes lie on this computer, the room beside them is known."""

from __future__ import annotations

import shutil
from pathlib import Path

from kvedge.client.vm_files.host_room import find_room
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.storage import PersistentVolume


def volume(storage_class: str, **source: JsonObject) -> PersistentVolume:
    return decode(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {"storageClassName": storage_class, **source}})


def test_the_room_is_that_of_the_file_system_of_a_volume_of_the_class(tmp_path: Path) -> None:
    here = volume("fast", local={"path": str(tmp_path)})
    room = find_room([here], "fast")
    assert room is not None
    assert 0 < room <= shutil.disk_usage(tmp_path).total
    assert find_room([here], "slow") is None
    assert find_room([here], "") is not None


def test_a_volume_of_another_computer_tells_nothing(tmp_path: Path) -> None:
    away = volume("fast", hostPath={"path": str(tmp_path / "away")})
    assert find_room([away, volume("fast", csi={"driver": "x", "volumeHandle": "y"})], "fast") is None
