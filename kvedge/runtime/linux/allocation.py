"""Space of files and block devices: allocating it, and giving it back so that it reads as zeros.

Called by what fills claims. Touches the descriptors it is given.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from typing import Final

from kvedge.runtime.linux.calls import check, libc

# include/uapi/linux/falloc.h
_KEEP_SIZE: Final = 0x01
_PUNCH_HOLE: Final = 0x02
_ZERO_RANGE: Final = 0x10
# SYNC_FILE_RANGE_WRITE of include/uapi/linux/fs.h.
_SYNC_WRITE: Final = 2
# include/uapi/linux/fs.h: _IOR(0x12, 114, size_t)
_BLKGETSIZE64: Final = 0x80081272

_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV, errno.ENOTTY)


def device_size(descriptor: int) -> int:
    """The size of an open block device in bytes."""
    answer = fcntl.ioctl(descriptor, _BLKGETSIZE64, bytes(8))
    return int(struct.unpack("Q", answer)[0])


def allocate(descriptor: int, size: int) -> None:
    """Have the blocks of the first `size` bytes of a file, without changing what is in them.

    Raises:
        OSError: ENOSPC when there are not enough.
    """
    os.posix_fallocate(descriptor, 0, size)


def begin_writeback(descriptor: int) -> None:
    """Have the kernel begin to write out what is dirty of a file, so that a later fsync finds little left to do."""
    # When it cannot do so now, that fsync does, which tells its errors.
    libc.sync_file_range(descriptor, ctypes.c_int64(0), ctypes.c_int64(0), _SYNC_WRITE)


def zero_range(descriptor: int, start: int, size: int) -> bool:
    """Have a range read as zeros without writing them; False where the file system or device cannot.

    Raises:
        OSError: as the device has it.
    """
    return _fallocate_first((_PUNCH_HOLE | _KEEP_SIZE, _ZERO_RANGE | _KEEP_SIZE), descriptor, start, size)


def allocate_zeros(descriptor: int, start: int, size: int) -> bool:
    """Have a range of a device read as zeros that have their space; False where the device cannot without writing.

    Raises:
        OSError: as the device has it, for want of space as well.
    """
    return _fallocate_first((_ZERO_RANGE | _KEEP_SIZE,), descriptor, start, size)


def _fallocate_first(modes: tuple[int, ...], descriptor: int, start: int, size: int) -> bool:
    """Whether one of the modes could be used."""
    for mode in modes:
        try:
            _fallocate(descriptor, mode, start, size)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            continue
        return True
    return False


def _fallocate(descriptor: int, mode: int, start: int, size: int) -> None:
    result = libc.fallocate(descriptor, mode, ctypes.c_int64(start), ctypes.c_int64(size))
    check(int(result), f"descriptor {descriptor}")
