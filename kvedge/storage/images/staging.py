"""Half-made things of the image store: a directory each, owned by a living process or swept away.

Called by the image store. A staging directory's lock is held by its owner, so that the remains of a killed import are
told from one that is under way in another process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvedge.runtime.linux.files import syncfs


@contextmanager
def make_staging_directory(parent: Path) -> Iterator[Path]:
    """A new directory below `parent` that is gone after the block; move out of it what is to stay."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(dir=parent, prefix="new-"))
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def make_private_directory(path: Path) -> Path:
    """The directory, for root alone, also when an older kvedge has made it readable for others."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def sweep_staging(parent: Path) -> None:
    """Remove what killed processes left there."""
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(parent)):
            with suppress(FileNotFoundError, BlockingIOError, NotADirectoryError):
                _remove_unowned(Path(entry.path))


def _remove_unowned(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


@contextmanager
def hold_lock(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock file, across processes, for the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _lock(path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
    try:
        # Sweeps take old files only, and this one is in use; a full disk may refuse even that.
        with suppress(OSError):
            os.utime(lock)
        yield
    finally:
        os.close(lock)


def _lock(path: Path, how: int) -> int:
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, how)
            if _is_at(lock, path):
                return lock
        except BaseException:
            os.close(lock)
            raise
        # It was removed while it was waited for: others lock the new one.
        os.close(lock)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def remove_free_lock(path: Path) -> None:
    """Remove a lock file that nobody holds."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(lock, path):
            path.unlink()
    except BlockingIOError:
        pass
    finally:
        os.close(lock)


def sync_file_system(path: Path) -> None:
    """Make everything written to the file system of `path` durable: cheaper than one fsync for each of a tree's files.

    Raises:
        OSError: when the disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        syncfs(descriptor, str(path))
    finally:
        os.close(descriptor)
