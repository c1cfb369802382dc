"""What the node knows of a disk's place: whether it does O_DIRECT, its block sizes, and what it gives back.

Called by those who prepare a disk. Opens the file or device, reads /sys, and changes nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# From linux/fs.h: the smallest unit a device can address, and the one it writes without reading first.
_BLKSSZGET: Final = 0x1268
_BLKPBSZGET: Final = 0x127B
# The block sizes that QEMU takes.
_SIZES: Final = (512, 2 << 20)
_USUAL: Final = 4096


def has_direct_io(path: str) -> bool:
    """Whether the file system of a file does O_DIRECT."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise
    return True


def read_block_size(path: str) -> tuple[int, int]:
    """The block size of a file's file system, in bytes, as the logical and the physical one."""
    size = os.statvfs(path).f_bsize
    usable = _SIZES[0] <= size <= _SIZES[1] and not size & (size - 1)
    return (size, size) if usable else (_USUAL, _USUAL)


def device_block_size(device: int) -> tuple[int, int]:
    """The logical and the physical block size of an open block device, in bytes."""
    logical, physical = (
        int.from_bytes(fcntl.ioctl(device, request, bytes(4)), "little") for request in (_BLKSSZGET, _BLKPBSZGET)
    )
    return logical, physical


def discard_granularity(device: int, sysfs: Path = Path("/sys")) -> int:
    """The least that an open block device gives back, in bytes; 0 when it gives nothing back or does not say."""
    number = os.fstat(device).st_rdev
    queues = sysfs / "dev/block" / f"{os.major(number)}:{os.minor(number)}"
    # A partition has none of its own: it is that of its disk.
    for queue in (queues / "queue", queues / "../queue"):
        with suppress(OSError, ValueError):
            return int((queue / "discard_granularity").read_text())
    return 0
