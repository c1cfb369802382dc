# Tests: kvedge/storage/backups/lock_rules.py, kvedge/storage/backups/restic_client.py
"""Locks of runs that were killed go, and locks that may be at work stay, whatever this host's clock says."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY
from kvedge.storage.backups import restic_client
from kvedge.storage.backups.lock_rules import RepositoryLock, read_lock, why_kept
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from tests.support.quick_repository import lay_repository
from tests.support.waiting import wait_until

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


def lock(age: timedelta, host: str = "other") -> RepositoryLock:
    return RepositoryLock(NOW - age, host)


@pytest.mark.parametrize(
    ("locks", "newest", "words"),
    [
        pytest.param([lock(HOUR, "own"), lock(-HOUR, "own")], None, "", id="of this host alone"),
        pytest.param([lock(HOUR, "own"), lock(HOUR)], None, "other has a lock of 2026-01-02 02:04:05", id="another's"),
        pytest.param([lock(25 * HOUR), lock(HOUR, "own")], NOW, "", id="another's old one"),
        pytest.param([lock(25 * HOUR)], NOW + HOUR, "a clock is wrong", id="an entry lies ahead"),
        pytest.param([lock(25 * HOUR), lock(-HOUR)], NOW, "a clock is wrong", id="a lock lies ahead"),
        pytest.param([lock(25 * HOUR), None], NOW, "cannot be read", id="one that cannot be read"),
    ],
)
def test_why_locks_stay(locks: list[RepositoryLock | None], newest: datetime | None, words: str) -> None:
    found = why_kept(locks, "own", newest, NOW)
    assert words in found
    assert bool(found) == bool(words)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"time": "never", "hostname": "a"}', b'{"time": 7}'])
def test_what_is_no_lock_is_none(text: bytes) -> None:
    assert read_lock(text) is None


@pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic (apt: restic)")
def test_a_lock_of_another_host_stays_for_a_day_and_one_of_ours_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / PASSWORD_KEY).write_text("word")
    where = tmp_path / "kvedge"
    lay_repository(where, "word")
    client = ResticClient(str(where), tmp_path)
    client.ensure()

    def killed_run() -> None:
        # It waits for its input, and leaves its lock.
        words = ["restic", "--no-cache", "-r", str(where), "backup", "--stdin", "--json"]
        environment = {**os.environ, "RESTIC_PASSWORD_FILE": str(tmp_path / PASSWORD_KEY)}
        run = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
        assert run.stdin is not None
        try:
            # While it is written it has a longer name.
            wait_until(lambda: [len(each.name) for each in (where / "locks").iterdir()] == [64], "restic's lock", 40)
        finally:
            run.kill()
            run.wait()
            run.stdin.close()

    killed_run()
    monkeypatch.setattr(restic_client, "gethostname", lambda: "another")
    client.unlock_stale()
    with pytest.raises(BackupFailure, match=r"has a lock of .*24 hours old") as caught:
        client.free_room()
    assert caught.value.locked
    client.unlock_stale(datetime.now(UTC) + timedelta(hours=25))
    assert not any((where / "locks").iterdir())

    killed_run()
    monkeypatch.undo()
    client.unlock_stale()
    assert not any((where / "locks").iterdir())
