"""A qcow2 image that is read while it comes in, from its first byte to its last, without a copy of it.

`qemu-img` and QEMU write a table before the clusters that it names, so that most images can be read in one pass: what
comes after is waited for, and nothing is kept but what is waited for. An image whose tables come after their clusters
(it was grown, or has snapshots) is told by `NotStreamable`, before anything of it was missed or as soon as that is
known. Every number comes from a stranger: tables are bounded by the size of the disk, which the caller has checked.
Touches nothing but what it calls.
"""

from __future__ import annotations

import heapq
import sys
import zlib
from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

from kvedge.storage.imports.import_errors import ImportFailure, NotStreamable
from kvedge.storage.qcow2_header import Qcow2Header

_OFFSET: Final = 0x00FF_FFFF_FFFF_FE00
_COMPRESSED: Final = 1 << 62
_READS_ZERO: Final = 1
_SECTOR: Final = 512
# QEMU's own limit of a table.
_LARGEST_L1: Final = 32 << 20
# A few MB of memory each 10,000. Images whose clusters are strewn about more than that are left to qemu-img.
_MOST_PENDING: Final = 60_000
# qcow2's compression: raw deflate and a window of 4 KiB.
_WINDOW_BITS: Final = -12

Write = Callable[[int, bytes], None]


class _Kind(IntEnum):
    L1 = 0
    L2 = 1
    DATA = 2
    COMPRESSED = 3


class _Region(NamedTuple):
    """Bytes of the file that are waited for; `guest` is where they belong in the disk, or in which L1 entry."""

    start: int
    end: int
    kind: _Kind
    guest: int


class Qcow2Stream:
    """Is fed the file in order; calls `write(guest position, data)` for each part of the disk that is not zero."""

    def __init__(self, header: Qcow2Header, write: Write) -> None:
        """`header` was checked.

        Raises:
            NotStreamable: when qemu-img has to read it.
            ImportFailure: when its tables do not fit its size.
        """
        if not header.is_plain:
            raise NotStreamable("subclusters, or clusters compressed by zstd")
        self._size = header.virtual_size
        self._cluster_bits = header.cluster_bits
        self._cluster = 1 << header.cluster_bits
        self._write = write
        self._pending: list[_Region] = []
        # The bytes of the file from `_base` on that are still needed.
        self._base = 0
        self._buffer = b""
        entries = -(-self._size // (self._cluster * (self._cluster // 8)))
        if entries > header.l1_entries or entries * 8 > _LARGEST_L1:
            raise _damage("its first table does not fit its size")
        if header.l1_offset % self._cluster or not header.l1_offset:
            raise _damage("its first table is at no cluster")
        if header.l1_offset > self._cluster * 64:
            # It was moved to the end when the disk grew: all data come before.
            raise NotStreamable("the first table comes late")
        self._wait(_Region(header.l1_offset, header.l1_offset + entries * 8, _Kind.L1, 0))

    def feed(self, data: bytes) -> None:
        """The next bytes of the file.

        Raises:
            NotStreamable: when a table names what has passed already.
            ImportFailure: when a table or a cluster is broken.
        """
        if not self._pending or self._pending[0].start >= self._base + len(self._buffer) + len(data):
            # Nothing of it is needed.
            self._base += len(self._buffer) + len(data)
            self._buffer = b""
            return
        self._buffer = self._buffer + data if self._buffer else data
        self._take()

    def end(self) -> None:
        """The file has ended.

        Raises:
            ImportFailure: when something of it is missing.
        """
        if not self._pending:
            return
        # The last cluster may be short: qcow2 has zeros behind the end.
        end = self._base + len(self._buffer)
        missing = max(region.end for region in self._pending) - end
        is_table = any(region.kind in (_Kind.L1, _Kind.L2) for region in self._pending)
        # The rest of a cluster that has begun starts at the end.
        latest = end if end % self._cluster else end - 1
        if is_table or missing >= self._cluster or any(region.start > latest for region in self._pending):
            raise _damage("it ends in the middle")
        self.feed(bytes(missing))

    def _take(self) -> None:
        """Use what is complete in the buffer, and forget what nothing waits for."""
        end = self._base + len(self._buffer)
        while self._pending and self._pending[0].start < end:
            region = self._pending[0]
            if region.kind is not _Kind.DATA and region.end > end:
                break
            heapq.heappop(self._pending)
            have = min(region.end, end)
            data = self._buffer[region.start - self._base : have - self._base]
            match region.kind:
                case _Kind.DATA:
                    self._put(region.guest, data)
                    if have < region.end:
                        self._wait(_Region(have, region.end, region.kind, region.guest + len(data)))
                case _Kind.COMPRESSED:
                    self._put(region.guest, self._decompress(data))
                case _Kind.L1:
                    self._read_l1(data)
                case _Kind.L2:
                    self._read_l2(data, region.guest)
        keep = min(self._pending[0].start, end) if self._pending else end
        self._buffer = self._buffer[keep - self._base :] if keep < end else b""
        self._base = keep

    def _put(self, guest: int, data: bytes) -> None:
        # The last cluster may be longer than the disk is, and come in pieces.
        data = data[: max(0, self._size - guest)]
        if data:
            self._write(guest, data)

    def _wait(self, region: _Region) -> None:
        if region.start < self._base:
            raise NotStreamable("a table comes after its clusters")
        if len(self._pending) >= _MOST_PENDING:
            raise NotStreamable("too many clusters are strewn about")
        heapq.heappush(self._pending, region)

    def _read_l1(self, data: bytes) -> None:
        for index, entry in enumerate(_numbers(data)):
            offset = entry & _OFFSET
            if not offset:
                continue
            if offset % self._cluster:
                raise _damage("a table is at no cluster")
            self._wait(_Region(offset, offset + self._cluster, _Kind.L2, index))

    def _read_l2(self, data: bytes, index: int) -> None:
        first = index * (self._cluster // 8) * self._cluster
        clusters = min(self._cluster // 8, -(-(self._size - first) // self._cluster))
        begun: _Region | None = None
        for number, entry in enumerate(_numbers(data)[:clusters]):
            if not entry:
                continue
            guest = first + number * self._cluster
            if entry & _COMPRESSED:
                self._wait(self._find_compressed_region(entry, guest))
                continue
            offset = entry & _OFFSET
            if not offset or entry & _READS_ZERO:
                continue
            if offset % self._cluster:
                raise _damage("a cluster is at no cluster's place")
            if begun and begun.end == offset and guest - begun.guest == offset - begun.start:
                begun = begun._replace(end=offset + self._cluster)
                continue
            if begun:
                self._wait(begun)
            begun = _Region(offset, offset + self._cluster, _Kind.DATA, guest)
        if begun:
            self._wait(begun)

    def _find_compressed_region(self, entry: int, guest: int) -> _Region:
        bits = 62 - (self._cluster_bits - 8)
        start = entry & ((1 << bits) - 1)
        sectors = (entry & (_COMPRESSED - 1)) >> bits
        return _Region(start, (start // _SECTOR + sectors + 1) * _SECTOR, _Kind.COMPRESSED, guest)

    def _decompress(self, data: bytes) -> bytes:
        try:
            found = zlib.decompressobj(_WINDOW_BITS).decompress(data, self._cluster)
        except zlib.error as error:
            raise _damage("a compressed cluster is damaged") from error
        if len(found) != self._cluster:
            raise _damage("a compressed cluster is damaged")
        return found


def _numbers(data: bytes) -> array[int]:
    numbers = array("Q", data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _damage(why: str) -> ImportFailure:
    return ImportFailure(
        f"Unable to process data: the qcow2 image is broken: {why}; get it again, or qemu-img check it"
    )
