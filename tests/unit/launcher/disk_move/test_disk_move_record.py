"""What outlasts a launcher of disks that move; a record that cannot be read is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.disk_move.disk_move_plan import Stage
from kvedge.launcher.disk_move.disk_move_record import MoveRecord, MoveStore, MovingDisk

DISK = MovingDisk("root", "vda", "old", "new", "kvedge-moved-x", "/new/disk.img", block=True, bytes=7)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert MoveStore(str(tmp_path)).read() == MoveRecord()
    record = MoveRecord("m-1", Stage.SETTLED, (DISK,), held=True, message="why", started_ms=1, ended_ms=2)
    MoveStore(str(tmp_path)).keep(record)
    assert MoveStore(str(tmp_path)).read() == record


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"stage": "odd", "disks": []}', '{"stage": "done", "disks": [{}]}']
)
def test_what_is_damaged_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "disk-move.json").write_text(text)
    assert MoveStore(str(tmp_path)).read() == MoveRecord()
