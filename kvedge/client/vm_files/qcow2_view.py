"""A disk that is known by its chunks, read as a qcow2 file that lies nowhere: an upload then sends no holes.

Made by imports, read by uploads. Each table stands before what it names, so that kvedge's worker takes the image as it
comes; qemu-img reads it as well. Reads chunks by the function that it is given, and holds one of them, and a table.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from kvedge.storage.qcow2_header import MAGIC

_CLUSTER_BITS: Final = 20
CLUSTER: Final = 1 << _CLUSTER_BITS
_ENTRIES: Final = CLUSTER // 8
# 16 bits for each cluster of the file.
_REFCOUNTS: Final = CLUSTER // 2
_COPIED: Final = 1 << 63
_REFCOUNT_ORDER: Final = 4
_HEADER_LENGTH: Final = 104

ReadChunk = Callable[[int], bytes]


class Qcow2View:
    """Bytes of the file at any place. `places` are where in the disk the chunks belong, in order."""

    def __init__(self, disk_size: int, places: Sequence[int], chunk: int, read_chunk: ReadChunk) -> None:
        """`chunk` is their size, a multiple of a cluster; `read_chunk` gets the number of one of them."""
        self._disk_size = disk_size
        self._places = places
        self._per_chunk = chunk // CLUSTER
        self._chunk = chunk
        self._read_chunk = lru_cache(1)(read_chunk)
        self._l1_entries = max(1, -(-disk_size // (CLUSTER * _ENTRIES)))
        self._l1_clusters = -(-self._l1_entries // _ENTRIES)
        self._table = lru_cache(1)(self._make_l2)
        self._plan_tables()
        self._plan_refcounts()

    def _plan_tables(self) -> None:
        """Which chunks each table of the second level names: the first of them, by the table's number."""
        covered = CLUSTER * _ENTRIES
        self._tables: list[int] = []
        self._first_chunks: list[int] = []
        for number, place in enumerate(self._places):
            if not self._tables or self._tables[-1] != place // covered:
                self._tables.append(place // covered)
                self._first_chunks.append(number)

    def _plan_refcounts(self) -> None:
        content = (
            self._l1_clusters
            + len(self._tables)
            + sum(self._clusters_of(number) for number in range(max(0, len(self._places) - 1), len(self._places)))
        )
        # All but the last are full.
        content += max(0, len(self._places) - 1) * self._per_chunk
        blocks = 1
        while blocks * _REFCOUNTS < 1 + self._refcount_table_clusters(blocks) + blocks + content:
            blocks += 1
        self._blocks = blocks
        self._block_start = 1 + self._refcount_table_clusters(blocks)
        self._l1_start = self._block_start + blocks
        self._content_start = self._l1_start + self._l1_clusters
        self._clusters = self._content_start + content - self._l1_clusters
        # The cluster of each table; its chunks follow it.
        self._table_starts = array("Q")
        for index, first in enumerate(self._first_chunks):
            self._table_starts.append(self._content_start + index + first * self._per_chunk)

    @property
    def size(self) -> int:
        """Of the file."""
        return self._clusters * CLUSTER

    def read_at(self, position: int, size: int) -> bytes:
        """Up to that many bytes; fewer at the end of a cluster, none at the end of the file."""
        if position >= self.size:
            return b""
        cluster, within = divmod(position, CLUSTER)
        return self._cluster(cluster)[within : within + size]

    def _cluster(self, number: int) -> bytes:
        if number < self._content_start:
            return self._make_front(number)
        index = bisect_right(self._table_starts, number) - 1
        if self._table_starts[index] == number:
            return self._table(index)
        chunk, part = divmod(number - self._table_starts[index] - 1, self._per_chunk)
        data = self._read_chunk(self._first_chunks[index] + chunk)
        return data[part * CLUSTER : (part + 1) * CLUSTER].ljust(CLUSTER, b"\0")

    def _make_front(self, number: int) -> bytes:
        """The header, the counts of references, the first table."""
        if number == 0:
            return self._make_header().ljust(CLUSTER, b"\0")
        if number < self._block_start:
            first = (number - 1) * _ENTRIES
            offsets = range(first, min(first + _ENTRIES, self._blocks))
            return _table((self._block_start + index) * CLUSTER for index in offsets)
        if number < self._l1_start:
            used = min(_REFCOUNTS, self._clusters - (number - self._block_start) * _REFCOUNTS)
            return (b"\0\1" * max(0, used)).ljust(CLUSTER, b"\0")
        first = (number - self._l1_start) * _ENTRIES
        entries = [0] * min(_ENTRIES, self._l1_entries - first)
        for table, start in zip(self._tables, self._table_starts, strict=True):
            if first <= table < first + len(entries):
                entries[table - first] = start * CLUSTER | _COPIED
        return _table(entries)

    def _make_l2(self, index: int) -> bytes:
        start, base = self._table_starts[index], self._tables[index] * _ENTRIES
        first = self._first_chunks[index]
        end = self._first_chunks[index + 1] if index + 1 < len(self._first_chunks) else len(self._places)
        entries = [0] * _ENTRIES
        for number in range(first, end):
            guest = self._places[number] // CLUSTER - base
            for part in range(self._clusters_of(number)):
                file = start + 1 + (number - first) * self._per_chunk + part
                entries[guest + part] = file * CLUSTER | _COPIED
        return _table(entries)

    def _clusters_of(self, number: int) -> int:
        length = min(self._chunk, self._disk_size - self._places[number])
        return -(-length // CLUSTER)

    def _refcount_table_clusters(self, blocks: int) -> int:
        return -(-blocks // _ENTRIES)

    def _make_header(self) -> bytes:
        return struct.pack(
            ">4sIQIIQIIQQIIQQQQII",
            *(MAGIC, 3, 0, 0, _CLUSTER_BITS, self._disk_size, 0),
            *(self._l1_entries, self._l1_start * CLUSTER),
            *(CLUSTER, self._block_start - 1, 0, 0),
            *(0, 0, 0, _REFCOUNT_ORDER, _HEADER_LENGTH),
        )


def _table(entries: Iterable[int]) -> bytes:
    numbers = array("Q", entries)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes().ljust(CLUSTER, b"\0")
