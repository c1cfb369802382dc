"""A process that is held: what is its own is opened through its directory in /proc, never by its number.

Used by all of the handler that reaches into a launcher's Pod. The number of a process that has ended is given to
another one, and a guest that broke out of QEMU can choose to which: the directory, opened once, stays that process's,
and leads nowhere when it has ended.

Nor is a process believed that has left the node's user namespace: in one of its own it mounts what it likes and
changes its root. None comes back from there, so that a file that was opened before the check was opened in time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from kvedge.runtime.linux.process_stat import ProcessStat
from kvedge.storage.beneath import AS_ROOT, hold_open_beneath

# Device and inode tell a file, a directory or a namespace from every other one.
Identity = tuple[int, int]
Kind = Literal["mnt", "net", "pid", "user"]

_PROC: Final = Path("/proc")
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LARGEST_TEXT: Final = 1 << 20


class HeldProcess:
    """One process; for a `with` block, or until it is closed. One thread at a time: :meth:`copy` is for others."""

    def __init__(self, pid: int, directory: int) -> None:
        # As the host counts; another process's as soon as this one has ended.
        self.pid = pid
        self._directory = directory

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that has that number now. Ask the held process which one it is.

        Raises:
            ProcessLookupError: when there is no such process.
        """
        try:
            return cls(pid, os.open(_PROC / str(pid), _DIRECTORY))
        except FileNotFoundError as error:
            raise _end_error(pid) from error

    def copy(self) -> Self:
        """The same process, closed on its own."""
        return type(self)(self.pid, os.dup(self._directory))

    def close(self) -> None:
        """Let go of it; may be called again."""
        directory, self._directory = self._directory, -1
        if directory >= 0:
            os.close(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def root(self) -> Iterator[int]:
        """A descriptor (O_PATH) of its root directory; whatever is below may have been put there by a guest.

        Raises:
            ProcessLookupError: when it has ended.
            PermissionError: when it has left the node's user namespace.
        """
        with self._open("root", _DIRECTORY) as opened:
            yield opened

    @contextmanager
    def namespace(self, kind: Kind) -> Iterator[int]:
        """A descriptor of a namespace that it is in. Raises as :meth:`root`."""
        with self._open(f"ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) as opened:
            yield opened

    def identity(self, kind: Kind) -> Identity:
        """Which namespace it is in.

        Raises:
            ProcessLookupError: when it has ended.
        """
        try:
            return identity_of(os.stat(f"ns/{kind}", dir_fd=self._directory))
        except OSError as error:
            raise self._explain(error) from error

    def text(self, name: str) -> str:
        """A file of its directory in /proc, such as `cgroup`. Raises as :meth:`root`."""
        with self._open(name, os.O_RDONLY | os.O_CLOEXEC) as opened, open(os.dup(opened), "rb") as file:
            return file.read(_LARGEST_TEXT).decode("utf-8", "surrogateescape")

    def identify_directory(self, path: str) -> Identity | None:
        """The directory that it has at a path; None when there is none. Raises as :meth:`root`."""
        with self.root() as root:
            return identify_directory(root, path)

    @contextmanager
    def _open(self, name: str, flags: int) -> Iterator[int]:
        try:
            opened = os.open(name, flags, dir_fd=self._directory)
        except OSError as error:
            raise self._explain(error) from error
        try:
            self._check_users()
            yield opened
        finally:
            os.close(opened)

    def _check_users(self) -> None:
        own = own_namespace("user")
        if own is not None and self.identity("user") != own:
            raise PermissionError(errno.EPERM, f"process {self.pid} has left the node's user namespace")

    def _explain(self, error: OSError) -> OSError:
        """Its end, when that is why: the kernel has several words for it."""
        return _end_error(self.pid) if self._has_ended() else error

    def _has_ended(self) -> bool:
        try:
            opened = os.open("stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory)
            with open(opened, "rb") as file:
                return ProcessStat(file.read()).has_ended
        except (FileNotFoundError, ProcessLookupError):
            return True


def own_namespace(kind: Kind) -> Identity | None:
    """The handler's own; None when the kernel has none of that kind."""
    try:
        return identity_of(os.stat(_PROC / "self/ns" / kind))
    except FileNotFoundError:
        return None


def identify_directory(root: int, path: str) -> Identity | None:
    """The directory at a path beneath a root, with links followed as if that were the root; None when there is none."""
    try:
        with hold_open_beneath(root, path.lstrip("/"), os.O_PATH | os.O_DIRECTORY, resolve=AS_ROOT) as opened:
            return identity_of(os.fstat(opened))
    except OSError:
        # Not there, or behind something that is no directory.
        return None


def identity_of(facts: os.stat_result) -> Identity:
    """What tells it from every other one."""
    return facts.st_dev, facts.st_ino


def _end_error(pid: int) -> ProcessLookupError:
    return ProcessLookupError(errno.ESRCH, f"process {pid} has ended")
