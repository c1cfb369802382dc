"""Files: opening beneath a directory, and having a whole file system on disk.

Called by `storage.beneath`, which says what may be opened how, and by the image store.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

from kvedge.runtime.linux.calls import check, libc

# include/uapi/linux/openat2.h; the number is the same on every architecture.
_SYS_OPENAT2: Final = 437
_RENAME_NOREPLACE: Final = 1
_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
RESOLVE_NO_XDEV: Final = 0x01
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08
RESOLVE_IN_ROOT: Final = 0x10


class _OpenHow(ctypes.Structure):
    """struct open_how."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(directory: int, path: str, flags: int, mode: int, resolve: int) -> int:
    """openat2(2); may fail with EAGAIN, too."""
    how = _OpenHow(flags, mode, resolve)
    opened = libc.syscall(_SYS_OPENAT2, directory, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    return check(int(opened), path)


def rename_new(directory: int, old: str, new: str) -> None:
    """renameat2(2) within a directory, replacing nothing: FileExistsError when the new name is taken."""
    old_name, new_name = os.fsencode(old), os.fsencode(new)
    check(libc.renameat2(directory, old_name, directory, new_name, _RENAME_NOREPLACE), new)


def name_new(directory: int, staged: str, name: str) -> None:
    """Give a whole file its name, which nobody may have: FileExistsError when somebody has it. `staged` may stay."""
    try:
        os.link(staged, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        # Network file systems have links, and no such rename; others have it the other way round.
        if error.errno not in _NO_HARD_LINKS:
            raise
        rename_new(directory, staged, name)


def syncfs(descriptor: int, path: str) -> None:
    """syncfs(2) of the file system that a descriptor is on; `path` is for the error."""
    check(libc.syncfs(descriptor), path)
