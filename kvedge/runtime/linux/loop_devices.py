"""Loop devices: a file as a block device, with direct I/O, so that nothing is cached twice.

Called by the directory driver of volumes. Touches /dev/loop-control, loop devices and what /sys says of them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# linux/loop.h
_CTL_GET_FREE: Final = 0x4C82
_CONFIGURE: Final = 0x4C0A
_CLEAR: Final = 0x4C01
_SET_CAPACITY: Final = 0x4C07
_DIRECT_IO: Final = 16
# struct loop_config: the file, the block size, struct loop_info64 with its flags, and room to come.
_CONFIG: Final = struct.Struct("=II QQQQQ IIII 64s64s32s QQ 64x")
# Another program may take the device that the kernel has just called free.
_ATTEMPTS: Final = 32
_MAJOR: Final = 7

_SYS: Final = Path("/sys/block")
_NAME: Final = re.compile(r"loop[0-9]+")


def attach_loop(path: Path) -> Path:
    """The loop device of a file: the one that it has already, or a new one.

    Raises:
        OSError: when there is none to be had, and as the file system has it.
    """
    known = loop_of(path)
    if known is not None:
        return known
    backing = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for _ in range(_ATTEMPTS):
            device = _take_free_device()
            try:
                opened = os.open(device, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                fcntl.ioctl(opened, _CONFIGURE, _config(backing, path))
                return device
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
            finally:
                os.close(opened)
    finally:
        os.close(backing)
    raise OSError(errno.EBUSY, "no loop device stays free long enough", str(path))


def loop_of(path: Path) -> Path | None:
    """The loop device that has this very file, or None.

    Raises:
        OSError: when the file is not there.
    """
    facts = path.stat()
    for device in _find_used_devices():
        if _read_backing(device) == (facts.st_dev, facts.st_ino):
            return device
    return None


def refresh_size(device: Path) -> None:
    """Have a loop device as large as its file has become.

    Raises:
        OSError: as the kernel has it.
    """
    _call(device, _SET_CAPACITY)


def detach_loop(device: Path) -> None:
    """Take the file away from a loop device; with the last one that has it open, when there is one.

    Raises:
        OSError: as the kernel has it.
    """
    _call(device, _CLEAR)


def _find_used_devices() -> Iterator[Path]:
    for name in os.listdir(_SYS):
        if _NAME.fullmatch(name) and (_SYS / name / "loop").is_dir():
            yield Path("/dev") / name


# struct loop_info64 as LOOP_GET_STATUS64 fills it: device and inode of the file come first.
_GET_STATUS: Final = 0x4C05
_STATUS: Final = struct.Struct("=QQ")
_STATUS_BYTES: Final = 232


def _read_backing(device: Path) -> tuple[int, int] | None:
    try:
        opened = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = fcntl.ioctl(opened, _GET_STATUS, bytes(_STATUS_BYTES))
    except OSError:
        # Let go by its file meanwhile.
        return None
    finally:
        os.close(opened)
    number, inode = _STATUS.unpack_from(found)
    return number, inode


def _take_free_device() -> Path:
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        number = fcntl.ioctl(control, _CTL_GET_FREE)
    finally:
        os.close(control)
    device = Path(f"/dev/loop{number}")
    if not device.exists():
        # A /dev that nobody keeps, as in containers.
        os.mknod(device, stat.S_IFBLK | 0o660, os.makedev(_MAJOR, number))
    return device


def _config(backing: int, path: Path) -> bytes:
    # What tools show of the device; the kernel keeps 63 bytes.
    name = os.fsencode(path)[-63:]
    # Device, inode, offset, limit and keys stay 0: the whole file, as it is.
    return _CONFIG.pack(backing, 0, *(0,) * 8, _DIRECT_IO, name, b"", b"", 0, 0)


def _call(device: Path, request: int) -> None:
    opened = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(opened, request)
    finally:
        os.close(opened)
