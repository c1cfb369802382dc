"""Opening files beneath a directory that somebody else filled: an image, a volume, a Pod's file system.

Called wherever a path comes from an image, an archive or a manifest. The kernel resolves the whole path (openat2), so
there is no window between a check and its use. Touches only what it is asked to open or make; imports nothing but the
standard library and the calls, as the launcher and the container starter use it too.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kvedge.runtime.linux.files import (
    RESOLVE_BENEATH,
    RESOLVE_IN_ROOT,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    openat2,
)

# No links at all, and nothing above the directory.
STRICT: Final = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
# Links are followed as if the directory were the root, as a container's own processes would follow them.
AS_ROOT: Final = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS

# As many links as the kernel follows in one path.
_MOST_LINKS: Final = 40


def open_beneath(directory: int, path: str, flags: int, *, mode: int = 0, resolve: int = STRICT) -> int:
    """Open `path` relative to the directory descriptor, never leaving it; the descriptor is close-on-exec.

    Raises:
        OSError: ELOOP for a link where none is allowed, EXDEV for a way out, and what open(2) raises.
    """
    while True:
        try:
            return openat2(directory, path, flags | os.O_CLOEXEC, mode, resolve)
        except OSError as error:
            # EAGAIN: a rename elsewhere raced with `..` in the path; the kernel asks to try again.
            if error.errno not in (errno.EINTR, errno.EAGAIN):
                raise


@contextmanager
def hold_open_beneath(directory: int, path: str, flags: int, *, mode: int = 0, resolve: int = STRICT) -> Iterator[int]:
    """:func:`open_beneath` for a `with` block."""
    opened = open_beneath(directory, path, flags, mode=mode, resolve=resolve)
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def hold_directory(path: str | os.PathLike[str]) -> Iterator[int]:
    """A descriptor of a directory that the caller trusts, for a `with` block."""
    opened = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


def open_regular(directory: int, path: str) -> int:
    """Open a regular file for reading beneath a directory, following no link.

    Raises:
        OSError: as :func:`open_beneath`; EINVAL when it is no regular file.
    """
    # O_NONBLOCK: opening a fifo must not wait for a writer.
    opened = open_beneath(directory, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    raise OSError(errno.EINVAL, "not a regular file", path)


def make_directories(
    directory: int, path: str, *, mode: int = 0o755, resolve: int = AS_ROOT, making: Callable[[int], None] | None = None
) -> int:
    """Make `path` and what is missing above it beneath the directory; returns an O_PATH descriptor of it.

    With AS_ROOT, a link to a directory that is not there yet has it made, within the directory. `making` is called
    before each directory that is made, with a descriptor of the one in which it will lie, and may raise.

    Raises:
        OSError: ENOTDIR when a part exists and is no directory, and as :func:`open_beneath`.
    """
    return _make_directories(directory, path, mode, resolve, making or (lambda parent: None), _MOST_LINKS)


def _make_directories(
    directory: int, path: str, mode: int, resolve: int, making: Callable[[int], None], links: int
) -> int:
    flags = os.O_PATH | os.O_DIRECTORY
    current = open_beneath(directory, ".", flags, resolve=resolve)
    walked: list[str] = []
    try:
        for part in path.split("/"):
            if part in ("", "."):
                continue
            if part == "..":
                raise OSError(errno.EXDEV, "a path may not contain ..", path)
            walked.append(part)
            so_far = "/".join(walked)
            try:
                following = open_beneath(directory, so_far, flags, resolve=resolve)
            except FileNotFoundError:
                making(current)
                try:
                    os.mkdir(part, mode, dir_fd=current)
                except FileExistsError:
                    # A link that leads nowhere yet.
                    if resolve & RESOLVE_NO_SYMLINKS or not links:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None
                    target = os.path.join("/", *walked[:-1], os.readlink(part, dir_fd=current))
                    inside = os.path.normpath(target).lstrip("/")
                    os.close(_make_directories(directory, inside, mode, resolve, making, links - 1))
                following = open_beneath(directory, so_far, flags, resolve=resolve)
            os.close(current)
            current = following
    except BaseException:
        os.close(current)
        raise
    return current
