"""The state of a box goes into a repository of backups and comes back, by the host's restic."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY
from kvedge.standalone.box_state.state_file import read_state
from kvedge.standalone.box_state.state_repository import fetched_state, keep_state
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from tests.support.quick_repository import lay_repository
from tests.unit.standalone.box_state.test_box_state import box

pytestmark = pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic (apt: restic)")
__all__ = ["box"]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def client(tmp_path: Path) -> ResticClient:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / PASSWORD_KEY).write_text("word")
    lay_repository(tmp_path / "repository", "word")
    return ResticClient(str(tmp_path / "repository"), secret)


def test_a_state_comes_back_as_it_was_and_its_file_goes(client: ResticClient, tmp_path: Path, box: Path) -> None:
    head, now = keep_state(client, box, "one", NOW), datetime.now(UTC)
    assert not list((box / "state").glob(".in-*"))
    other = tmp_path / "other"
    with fetched_state(client, "", other, now) as path:
        (tmp_path / "read").mkdir()
        assert read_state(path, tmp_path / "read") == head
        assert path.stat().st_mode & 0o077 == 0 or path.parent.stat().st_mode & 0o077 == 0
    assert not path.exists()
    keep_state(client, box, "two", NOW)
    with (
        pytest.raises(BackupFailure, match="one, two: choose one"),
        fetched_state(client, "", other, now),
    ):
        pass
    with (
        pytest.raises(BackupFailure, match="no state of a box"),
        fetched_state(client, "three", other, now),
    ):
        pass


def test_a_repository_that_is_not_there_yet_is_made(client: ResticClient, tmp_path: Path, box: Path) -> None:
    keep_state(ResticClient(str(tmp_path / "new"), tmp_path / "secret"), box, "one", NOW)
    assert (tmp_path / "new" / "config").is_file()
    assert any((tmp_path / "new" / "snapshots").iterdir())


def test_a_newest_state_that_lies_ahead_of_the_clock_is_named_and_not_taken(
    client: ResticClient, tmp_path: Path, box: Path
) -> None:
    keep_state(client, box, "one", NOW)
    [kept] = client.list(["state"])
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    with (
        pytest.raises(BackupFailure, match=f"Choose one by --id: {kept.number[:8]} of "),
        fetched_state(client, "", tmp_path / "other", an_hour_ago),
    ):
        pass
    with fetched_state(client, "", tmp_path / "other", an_hour_ago, kept.number[:8]) as path:
        assert path.stat().st_size
    with (
        pytest.raises(BackupFailure, match="0 states in the repository have the ID 0-0"),
        fetched_state(client, "", tmp_path / "other", an_hour_ago, "0-0"),
    ):
        pass


def test_two_at_once_do_not_take_each_others_files(client: ResticClient, tmp_path: Path, box: Path) -> None:
    keep_state(client, box, "one", NOW)
    with fetched_state(client, "", box, datetime.now(UTC)) as path:
        with pytest.raises(BackupFailure, match="is at work: wait for its end"):
            keep_state(client, box, "one", NOW)
        assert path.is_file()
