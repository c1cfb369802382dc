"""A box keeps its state beside its VMs' backups, and a new box gets it from there by place and key alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.standalone.box_lock import BoxLock
from tests.machine.volumes.box_storage import box_storage
from tests.support.either_server import install_kinds

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(200),
    pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic: apt install restic"),
]


@pytest.fixture
def store() -> Iterator[Path]:
    """A directory that users get to."""
    with tempfile.TemporaryDirectory(prefix="kvedge-store-") as place:
        Path(place).chmod(0o755)
        (Path(place) / "usb").mkdir()
        os.chown(Path(place) / "usb", LAUNCHER_UID, LAUNCHER_GID)
        yield Path(place) / "usb"


def kvedge(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvedge", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", timeout=100)


def test_a_state_goes_beside_the_backups_and_comes_to_a_new_box(store: Path, tmp_path: Path) -> None:
    key, other = tmp_path / "key", tmp_path / "other"
    key.write_text("a key that the site holds")
    other.write_text("no such key")
    key.chmod(0o600)
    lock = BoxLock(tmp_path / "box")
    lock.start()
    lock.stop()
    with box_storage(tmp_path / "box") as box:
        install_kinds(box.client)
        given = ("--to", str(store), "--password-file", str(key))
        done = kvedge("state", "backup", *given, "--data-dir", str(tmp_path / "box"))
        assert "is in the repository" in done.stdout, done.stderr
    # The workers of VMs' backups go on in it.
    assert {path.stat().st_uid for path in (store / "kvedge").rglob("*")} == {LAUNCHER_UID}
    new = tmp_path / "new"
    asked = ("state", "restore", "--from", str(store), "--data-dir", str(new), "--password-file")
    done = kvedge(*asked, str(key))
    assert "objects of" in done.stdout, done.stderr
    assert (new / "state" / "kvedge.db").is_file()
    assert not list((new / "state").glob(".in-repository-*"))
    done = kvedge(*asked, str(other))
    assert (done.returncode, "wrong password" in done.stderr) == (5, True)
