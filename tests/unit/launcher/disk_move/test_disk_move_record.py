"""What outlasts a launcher of disks that move; a record that cannot be read is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvedge.launcher.disk_move.disk_move_plan import Stage
from kvedge.launcher.disk_move.disk_move_record import MoveRecord, MoveStore, MovingDisk

DISK = MovingDisk("root", "vda", "old", "new", "kvedge-moved-x", "/new/disk.img", block=True, bytes=7)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert MoveStore(str(tmp_path)).read() == MoveRecord()
    record = MoveRecord("m-1", Stage.SETTLED, (DISK,), held=True, message="why", started_ms=1, ended_ms=2)
    for stayed in (None, (), ("root",)):
        MoveStore(str(tmp_path)).keep(record._replace(stayed=stayed))
        assert MoveStore(str(tmp_path)).read() == record._replace(stayed=stayed)


def test_a_record_of_an_earlier_launcher_does_not_say_what_stayed(tmp_path: Path) -> None:
    MoveStore(str(tmp_path)).keep(MoveRecord("m-1", Stage.STANDING, (DISK,), stayed=("root",)))
    path = tmp_path / "disk-move.json"
    found = json.loads(path.read_text())
    del found["stayed"]
    path.write_text(json.dumps(found))
    assert MoveStore(str(tmp_path)).read() == MoveRecord("m-1", Stage.STANDING, (DISK,))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"stage": "odd", "disks": []}',
        '{"stage": "done", "disks": [{}]}',
        '{"stage": "done", "disks": [], "stayed": 1}',
    ],
)
def test_what_is_damaged_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "disk-move.json").write_text(text)
    assert MoveStore(str(tmp_path)).read() == MoveRecord()
