"""Who holds a file is seen, and nobody is kept from it."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from kvedge.runtime.linux.file_locks import is_locked


def test_a_file_is_locked_as_long_as_somebody_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert is_locked(path)
    assert not is_locked(path)
    # The look itself has let go of it.
    assert not is_locked(path)


def test_a_file_that_is_not_there_or_leads_elsewhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError):
        is_locked(tmp_path / "none")
    with pytest.raises(OSError, match="Too many levels"):
        is_locked(tmp_path / "link")
