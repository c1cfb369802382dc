# Tests: kvedge/storage/backups/restic_client.py
"""A repository that is made, found again, and gone, by the host's restic."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY
from kvedge.storage.backups.restic_client import BackupFailure, ResticClient

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
