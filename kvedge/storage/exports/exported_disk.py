"""A disk that is exported: a raw file in a claim, or a device; opened once for each call, with its size of that time.

Called by export_answers.py. Opens files read-only, beneath the claim's directory, and follows no link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from kvedge.resources.types.protection.export_job import ServedVolume, volume_device, volume_directory
from kvedge.storage.arriving_mark import read_arriving
from kvedge.storage.beneath import hold_directory, open_regular

DISK_NAME: Final = "disk.img"
# A device does not say when it was written last: what was fetched from another exporter is fetched anew.
_THIS_PROCESS: Final = os.urandom(8).hex()
# As many pieces as one page of a map has at most.
MOST_EXTENTS: Final = 512


class UnfinishedCopy(Exception):
    """The claim says that its image is the unfinished copy of a disk, and none."""


class ExportedDisk(Struct, frozen=True):
    """An open disk; `tag` changes when its content may have."""

    descriptor: int
    size: int
    is_device: bool
    tag: str
    modified: float

    def read(self, position: int, length: int) -> bytes:
        """As many bytes as are there.

        Raises:
            OSError: when it cannot be read.
        """
        return os.pread(self.descriptor, length, position)

    def is_unchanged(self) -> bool:
        """Whether nobody has written a file since it was opened; a device does not say."""
        return describe(self.descriptor).tag == self.tag

    def find_extents(self, position: int) -> Iterator[tuple[int, int]]:
        """Where data is from there on: begin and end of each part that is no hole. A device has none.

        Raises:
            OSError: when it cannot be read.
        """
        while position < self.size:
            if self.is_device:
                yield position, self.size
                return
            try:
                start = os.lseek(self.descriptor, position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return
                raise
            if start >= self.size:
                return
            position = min(os.lseek(self.descriptor, start, os.SEEK_HOLE), self.size)
            yield start, position


@contextmanager
def hold_disk(volume: ServedVolume, number: int) -> Iterator[ExportedDisk]:
    """The disk of a volume, for a `with` block.

    Raises:
        UnfinishedCopy: when it is none yet.
        OSError: when there is none, or it cannot be opened.
    """
    descriptor = _open_device(volume_device(number)) if volume.block else _open_file(volume_directory(number))
    try:
        yield describe(descriptor)
    finally:
        os.close(descriptor)


def map_page(disk: ExportedDisk, offset: int) -> dict[str, object]:
    """The parts of a disk from `offset` on that hold data, and where the next page begins."""
    extents: list[dict[str, int]] = []
    for start, end in disk.find_extents(offset):
        if len(extents) == MOST_EXTENTS:
            return {"size": disk.size, "extents": extents, "next_offset": start}
        extents.append({"offset": start, "length": end - start})
    return {"size": disk.size, "extents": extents, "next_offset": None}


def _open_file(directory: str) -> int:
    with hold_directory(directory) as opened:
        if read_arriving(opened):
            raise UnfinishedCopy
        return open_regular(opened, DISK_NAME)


def _open_device(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    if stat.S_ISBLK(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.ENOTBLK, os.strerror(errno.ENOTBLK), path)


def describe(descriptor: int) -> ExportedDisk:
    """What an open file or device is now."""
    found = os.fstat(descriptor)
    if stat.S_ISBLK(found.st_mode):
        size = os.lseek(descriptor, 0, os.SEEK_END)
        return ExportedDisk(descriptor, size, True, f'"{_THIS_PROCESS}-{size:x}"', found.st_mtime)
    tag = f'"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"'
    return ExportedDisk(descriptor, found.st_size, False, tag, found.st_mtime)
