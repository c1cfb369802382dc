"""The writers of small files, whole for each reader: some must be there after a power cut, others are made anew.

What a program of ours could not make anew, or would be misled by in an old version, is written durably: write, fsync,
rename, fsync of the directory. Without the last step the file system may forget the rename, and with it the file. The
rest goes by :func:`write_whole`. Touches only what it is given.
"""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path
from typing import Final

# What a file system without hard links says.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.ENOTSUP})


def write_durably(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file: whole under its name or as it was before, and never readable by more than `mode` says.

    Raises:
        OSError: as the file system has it; what was there is untouched.
    """
    for left in find_unfinished(path):
        left.unlink(missing_ok=True)
    # Of two writers the content of the later one is kept, whole.
    unfinished = name_unfinished(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(unfinished, flags, mode), "wb") as file:
            file.write(content)
        put_durably(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Replace a file at once for each reader, by one writer at a time, with the mode that the umask leaves.

    A power cut may leave it old, torn or empty, unless it is `durable`, which costs a disk's time.

    Raises:
        OSError: as the file system has it.
    """
    staged = path.with_name(f"{path.name}.new")
    staged.write_bytes(content)
    if durable:
        put_durably(staged, path)
    else:
        staged.replace(path)


def name_unfinished(path: Path) -> Path:
    """Where a file lies until it is whole: each writer, and each of its tries, has a place of its own."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.unfinished")


def find_unfinished(path: Path) -> list[Path]:
    """What killed processes left of a file, or of a directory."""
    begin, end = f".{path.name}.", ".unfinished"
    found = []
    for name in os.listdir(path.parent):
        if name.startswith(begin) and name.endswith(end):
            writer, dash, _ = name[len(begin) :].partition("-")
            # An earlier kvedge's bears no writer's number.
            if not (dash and writer.isdigit() and Path("/proc", writer).exists()):
                found.append(path.with_name(name))
    return found


def put_durably(staged: Path, path: Path) -> None:
    """Give a file that is complete, in the same directory, its final name.

    Raises:
        OSError: as the file system has it.
    """
    sync(staged)
    staged.replace(path)
    sync(path.parent)


def put_new_durably(staged: Path, path: Path) -> None:
    """The same for a name that nobody may have; where the file system can say so, two never get it.

    Raises:
        FileExistsError: somebody has it by now.
        OSError: as the file system has it.
    """
    sync(staged)
    try:
        os.link(staged, path, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Such as that of a USB stick.
        if path.exists() or path.is_symlink():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        staged.replace(path)
    else:
        staged.unlink()
    sync(path.parent)


def sync(path: Path, beneath: int | None = None) -> None:
    """Have a file, or the names in a directory, on disk; the path may be one beneath an open directory.

    Raises:
        OSError: as the file system has it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=beneath)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
