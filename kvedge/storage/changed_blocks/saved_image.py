"""Reads an image that backup_worker.py has written: which clusters it holds, and their bytes.

Called by the exporter of backups. The claim is a user's: whatever is in the file, no more of it than a table is in
memory, and nothing outside it is read.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kvedge.storage.changed_blocks.block_runs import CLUSTER, CLUSTER_BITS
from kvedge.storage.changed_blocks.qcow2_layout import ENTRIES, HEADER_BYTES, MAGIC, OFFSET_MASK, ZERO

_LONGEST_L1: Final = 8 << 20


class SavedExtent(NamedTuple):
    """Bytes of the disk: `at` is where they are in the image, 0 for zeros; `held` is False for those it lacks."""

    offset: int
    length: int
    at: int = 0
    held: bool = True


class SavedImage:
    """One open image, for one thread."""

    def __init__(self, descriptor: int) -> None:
        """The descriptor stays the caller's.

        Raises:
            OSError: when it is no such image.
        """
        self._image = descriptor
        header = os.pread(descriptor, HEADER_BYTES, 0)
        if len(header) < HEADER_BYTES or header[:4] != MAGIC:
            raise OSError(errno.EINVAL, "the image is not whole")
        version, backing, _, bits, self.size, crypt, entries, self._l1 = struct.unpack(">IQIIQIIQ", header[4:48])
        features = int.from_bytes(header[72:80], "big")
        wanted = -(-self.size // (CLUSTER * ENTRIES))
        plain = (version, backing, bits, crypt, features) == (3, 0, CLUSTER_BITS, 0, 0)
        if not plain or entries < wanted or wanted * 8 > _LONGEST_L1:
            raise OSError(errno.EINVAL, "the image is none of a backup")

    def extents(self, offset: int, end: int) -> Iterator[SavedExtent]:
        """What there is between two places of the disk, in order; neighbours that are alike are joined.

        Raises:
            OSError: when it cannot be read.
        """
        end = min(end, self.size)
        last: SavedExtent | None = None
        while offset < end:
            slot = offset // (CLUSTER * ENTRIES)
            stop = min(end, (slot + 1) * CLUSTER * ENTRIES)
            for each in self._of_slot(slot, offset, stop):
                joined = _join(last, each)
                if joined is None and last is not None:
                    yield last
                last = joined or each
            offset = stop
        if last is not None:
            yield last

    def read(self, extent: SavedExtent, offset: int, length: int) -> bytes:
        """Bytes of an extent. Raises OSError."""
        if not extent.at:
            return bytes(length)
        found = os.pread(self._image, length, extent.at + offset - extent.offset)
        if len(found) != length:
            raise OSError(errno.EIO, "the image has become shorter")
        return found

    def _of_slot(self, slot: int, offset: int, stop: int) -> Iterator[SavedExtent]:
        where = int.from_bytes(os.pread(self._image, 8, self._l1 + slot * 8), "big") & OFFSET_MASK
        if not where:
            yield SavedExtent(offset, stop - offset, held=False)
            return
        first, last = offset // CLUSTER - slot * ENTRIES, -(-stop // CLUSTER) - slot * ENTRIES
        table = os.pread(self._image, (last - first) * 8, where + first * 8)
        if len(table) != (last - first) * 8:
            raise OSError(errno.EIO, "a table of the image is missing")
        for number, (entry,) in enumerate(struct.iter_unpack(">Q", table)):
            at = offset if number == 0 else (slot * ENTRIES + first + number) * CLUSTER
            length = min(stop, (slot * ENTRIES + first + number + 1) * CLUSTER) - at
            if entry & ZERO:
                yield SavedExtent(at, length)
            elif data := entry & OFFSET_MASK:
                yield SavedExtent(at, length, data + at % CLUSTER)
            else:
                yield SavedExtent(at, length, held=False)


def _join(last: SavedExtent | None, each: SavedExtent) -> SavedExtent | None:
    if last is None or last.held != each.held:
        return None
    follows = each.at == last.at + last.length if last.at else not each.at
    return SavedExtent(last.offset, last.length + each.length, last.at, last.held) if follows else None
