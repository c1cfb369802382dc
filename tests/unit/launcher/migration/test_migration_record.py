# Tests: kvedge/launcher/launcher_files.py
"""What outlasts a launcher of a migration; a record that cannot be read is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.migration import migration_record
from kvedge.launcher.migration.migration_record import IncomingRecord, MigrationRecord, OutgoingRecord


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    record = MigrationRecord(str(tmp_path))
    assert (record.outgoing(), record.incoming()) == (OutgoingRecord(), IncomingRecord())
    leaving = OutgoingRecord("m-1", kept=True, message="why", paused=True, started_ms=1, ended_ms=2)
    coming = IncomingRecord("m-2", prepared=True, arrived=True, discarded=True, goes_on=True, message="why")
    record.keep_outgoing(leaving)
    record.keep_incoming(coming)
    again = MigrationRecord(str(tmp_path))
    assert (again.outgoing(), again.incoming()) == (leaving, coming)


def test_what_is_ready_to_say_that_a_guest_stays_says_it_of_its_own_migration_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = MigrationRecord(str(tmp_path))
    record.begin_outgoing(OutgoingRecord("m-1", started_ms=5))
    assert record.outgoing() == OutgoingRecord("m-1", started_ms=5)

    def refuse(_path: str, _document: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(migration_record, "replace_json", refuse)
    with pytest.raises(OSError, match="No space"):
        record.keep_stay(OutgoingRecord("m-0", kept=True))
    assert not record.outgoing().kept
    record.keep_stay(OutgoingRecord("m-1", kept=True, started_ms=5, ended_ms=9))
    assert record.outgoing() == OutgoingRecord("m-1", kept=True, started_ms=5, ended_ms=5)


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"uid": 7, "kept": "yes"}'])
def test_a_damaged_record_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "outgoing.json").write_text(text)
    assert MigrationRecord(str(tmp_path)).outgoing() == OutgoingRecord()
