# Tests: kvedge/storage/images/staging.py, kvedge/storage/images/image_pull.py
"""Lock files: held by one, removed when they are free, and none is held that was removed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kvedge.storage.images.image_pull import _sweep_partial
from kvedge.storage.images.staging import hold_lock, remove_free_lock
from tests.support.waiting import wait_until


def test_a_lock_that_is_held_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with hold_lock(path):
        remove_free_lock(path)
        assert path.exists()
    remove_free_lock(path)
    assert not path.exists()
    remove_free_lock(path)


def test_who_waits_for_a_lock_that_is_removed_takes_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    held: list[bool] = []

    def wait() -> None:
        with hold_lock(path):
            held.append(path.exists())

    with hold_lock(path):
        waiting = threading.Thread(target=wait)
        waiting.start()
        inode = path.stat().st_ino
        wait_until(lambda: f":{inode} " in Path("/proc/locks").read_text().partition("->")[2], "it waits")
        path.unlink()
    waiting.join(30)
    assert held == [True]


def test_old_locks_of_downloads_go_with_the_old_downloads(tmp_path: Path) -> None:
    for name in ("old.lock", "old", "held.lock"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "new.lock").touch()
    with hold_lock(tmp_path / "held.lock"):
        os.utime(tmp_path / "held.lock", (1, 1))
        _sweep_partial(tmp_path)
        assert sorted(os.listdir(tmp_path)) == ["held.lock", "new.lock"]


@pytest.mark.parametrize("shared", [False, True])
def test_a_lock_in_use_is_not_old(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "a.lock"
    path.touch()
    os.utime(path, (1, 1))
    with hold_lock(path, shared=shared):
        assert path.stat().st_mtime > 1
