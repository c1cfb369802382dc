# Tests: kvedge/storage/backups/restic_client.py, kvedge/storage/backups/backup_errand.py
"""A repository that is made, found again, and gone, by the host's restic."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvedge.resources.codec import encode_json
from kvedge.resources.types.protection.backup_job import PASSWORD_KEY, BackupJob, BackupRecord
from kvedge.storage.backups.backup_errand import read_record
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from tests.support.quick_repository import lay_repository
from tests.support.values import replace

pytestmark = pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic (apt: restic)")


def client(path: Path) -> ResticClient:
    secret = path / "secret"
    secret.mkdir(exist_ok=True)
    (secret / PASSWORD_KEY).write_text("word")
    return ResticClient(str(path / "disk" / "kvedge"), secret)


def test_a_new_repository_is_made_and_found_again(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    client(tmp_path).ensure()
    client(tmp_path).ensure(is_known=True)
    assert (tmp_path / "disk" / "kvedge" / "config").is_file()


def test_one_that_had_backups_is_not_made_anew_where_its_disk_is_not_mounted(tmp_path: Path) -> None:
    """Backups would lie on the disk of the VMs, and be called good."""
    (tmp_path / "disk").mkdir()
    with pytest.raises(BackupFailure, match="is its disk mounted") as caught:
        client(tmp_path).ensure(is_known=True)
    assert not caught.value.fatal, "it may be mounted in a minute"
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_latest_backup_that_lies_ahead_of_the_clock_is_named_and_not_taken(tmp_path: Path) -> None:
    """A clock that jumped makes an old one the latest for as long as it had jumped."""
    lay_repository(tmp_path / "disk" / "kvedge", "word")
    made = client(tmp_path)
    made.ensure(is_known=True)
    record = BackupRecord(id="7", namespace="shop", vm="web", time="2026-01-02T03:04:05Z", volumes=[], content={})
    (tmp_path / "record").write_bytes(encode_json(record))
    with (tmp_path / "record").open("rb") as file:
        made.keep(file, "kvedge-backup.json", ["kvedge", "vm=web", "id=7", "record"], "kvedge-shop")
    job = BackupJob(mode="read", repository="", namespace="shop", vm="web")
    now = datetime.now(UTC)
    with pytest.raises(BackupFailure, match=r"backup 7 of VM shop/web, dated .* Name one by its ID") as caught:
        read_record(job, made, now - timedelta(hours=1))
    assert caught.value.fatal
    assert read_record(job, made, now - timedelta(minutes=5)) == record
    assert read_record(replace(job, backup_id="7"), made, now - timedelta(hours=1)) == record
