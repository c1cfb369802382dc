"""The state of a box goes into a repository of backups and comes back, by the host's restic."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY
from kvedge.standalone.box_state.state_file import read_state
from kvedge.standalone.box_state.state_repository import fetched_state, keep_state
from kvedge.storage.backups.restic_client import BackupFailure, ResticClient
from tests.unit.standalone.box_state.test_box_state import box

pytestmark = pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic (apt: restic)")
__all__ = ["box"]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_state_comes_back_as_it_was_and_its_file_goes(tmp_path: Path, box: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / PASSWORD_KEY).write_text("word")
    client = ResticClient(str(tmp_path / "repository"), secret)
    head = keep_state(client, box, "one", NOW)
    assert not list((box / "state").glob(".in-*"))
    other = tmp_path / "other"
    with fetched_state(client, "", other) as path:
        (tmp_path / "read").mkdir()
        assert read_state(path, tmp_path / "read") == head
        assert path.stat().st_mode & 0o077 == 0 or path.parent.stat().st_mode & 0o077 == 0
    assert not path.exists()
    keep_state(client, box, "two", NOW)
    with pytest.raises(BackupFailure, match="one, two: choose one"), fetched_state(client, "", other):
        pass
    with pytest.raises(BackupFailure, match="no state of a box"), fetched_state(client, "three", other):
        pass
