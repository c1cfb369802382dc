"""Removes unpacked versions of the program from which nothing runs any more.

Called when `kvedge standalone` or a handler has started. The one file unpacks each version to
`<data-dir>/data/<sha256>/` (packaging/onefile/unpack.c); a launcher of an old version runs on from its own tree for as
long as its guest does. Touches that directory only.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kvedge.appliance.host.tree_users import find_used_trees
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.program import is_frozen

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[0-9a-f]{64}")
# The prefix of a tree that is being made or removed; the unpacker sweeps such leftovers too.
_PARTIAL: Final = ".part-"
# Guests of old versions end some day: a node may run for a year without a start.
_AGAIN_SECONDS: Final = 6 * 3600.0
_LOCK: Final = ".lock"
_STARTS: Final = ".starts"


def is_of_trees(name: str) -> bool:
    """Whether an entry of `<data-dir>/data` is what unpacking makes there."""
    return bool(_NAME.fullmatch(name)) or name.startswith(_PARTIAL) or name in (_LOCK, _STARTS)


def remove_all_trees(directory: Path) -> None:
    """Remove every version, also the one that runs; what else lies there stays, and the directory with it.

    Raises:
        OSError: as the file system has it.
    """
    if not directory.is_dir() or directory.is_symlink():
        return
    for entry in sorted(directory.iterdir()):
        if is_of_trees(entry.name) and entry.is_dir():
            shutil.rmtree(entry)
        elif is_of_trees(entry.name):
            entry.unlink()
    with suppress(OSError):
        directory.rmdir()


def remove_unused_trees(directory: Path, pods: Path | None, own: str) -> list[str]:
    """Remove every tree in `directory` but `own` and those in use; the names of those removed.

    Args:
        directory: `<data-dir>/data`.
        pods: where the agent of one box writes its Pods down.
        own: the name of the tree that this program runs from, or an empty text.

    Raises:
        OSError: when the directory or the Pods' records cannot be read.
    """
    if not directory.is_dir():
        return []
    _sweep(directory)
    names = {name for name in os.listdir(directory) if _NAME.fullmatch(name) and name != own}
    return [name for name in sorted(names) if _remove(directory, name, pods)]


def _remove(directory: Path, name: str, pods: Path | None) -> bool:
    with _hold(directory) as is_held:
        # A program that starts now waits for our lock, or already is a process of its tree.
        if not is_held or find_used_trees({name}, pods):
            return False
        doomed = directory / f"{_PARTIAL}{name}"
        os.rename(directory / name, doomed)
    shutil.rmtree(doomed, ignore_errors=True)
    return True


def _sweep(directory: Path) -> None:
    """Remove what was left half made or half removed, unless somebody unpacks at this moment."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        log.warning("unpacked versions cannot be looked through", extra={"facts": {"error": error.strerror}})
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in directory.glob(f"{_PARTIAL}*"):
            shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


@contextmanager
def _hold(directory: Path) -> Iterator[bool]:
    """The lock of which every start takes a share until it has become a process of its tree."""
    descriptor = os.open(directory / _STARTS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


class OldVersions:
    """A service that removes old versions, beside everything else; a failure costs room on the disk, no more."""

    name = "old versions"

    def __init__(self, data_dir: Path, pods: Path | None, wait_seconds: float = 0.0) -> None:
        """Where trees are and where Pods are written down; how long the ones before ours stay at the least."""
        self._directory = data_dir / "data"
        self._pods = pods
        self._wait_seconds = wait_seconds
        self._stopping = threading.Event()
        self._thread: BackgroundThread | None = None

    def start(self) -> None:
        """Begin; a program that was not unpacked has nothing to remove."""
        if is_frozen():
            self._thread = BackgroundThread("old-versions", self._run)
            self._thread.start()

    def stop(self) -> None:
        """Do not begin any more; a removal that is cut off is finished the next time."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.stop()

    def failure(self) -> str | None:
        """Never one of the role's."""
        return None

    def _run(self) -> None:
        pause = self._wait_seconds
        while not self._stopping.wait(pause):
            self._remove()
            pause = _AGAIN_SECONDS

    def _remove(self) -> None:
        try:
            removed = remove_unused_trees(self._directory, self._pods, Path(sys.executable).parent.name)
        except OSError as error:
            log.warning("old versions were not removed", extra={"facts": {"error": str(error)}})
            return
        for name in removed:
            log.info("old version removed", extra={"facts": {"tree": str(self._directory / name)}})
