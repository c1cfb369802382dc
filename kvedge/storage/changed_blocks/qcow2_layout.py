"""The shape of a qcow2 image that holds some clusters of a disk: where everything in it is, known before it is written.

Called by backup_worker.py and saved_image.py. Pure. Such an image has no backing file: that of an incremental backup
lacks what has not changed, and `qemu-img rebase -u` puts it onto the one before. Its header is written last, so that an
image that broke off is none.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kvedge.storage.changed_blocks.block_runs import CLUSTER, CLUSTER_BITS, BlockRuns, Run

MAGIC: Final = b"QFI\xfb"
# Of qcow2's tables: entries of 8 bytes, and counts of 2.
ENTRIES: Final = CLUSTER // 8
_COUNTS: Final = CLUSTER // 2
# The only one that points to a cluster; reads as zeros, whatever is below.
COPIED: Final = 1 << 63
ZERO: Final = 1
OFFSET_MASK: Final = 0x00FFFFFFFFFFFE00
# Version 3, without features; the header's length; refcounts of 16 bits.
_HEADER: Final = struct.Struct(">4sIQIIQIIQQIIQQQQII")
HEADER_BYTES: Final = _HEADER.size


class Layout(NamedTuple):
    """Offsets in clusters."""

    size: int
    slots: tuple[int, ...]
    count_tables: int
    count_blocks: int
    l1_clusters: int
    data_clusters: int

    @property
    def l1_entries(self) -> int:
        """How many L2 tables the disk could have."""
        return _divide(self.size, CLUSTER * ENTRIES)

    @property
    def l1_at(self) -> int:
        """Where the L1 table is."""
        return 1 + self.count_tables + self.count_blocks

    @property
    def l2_at(self) -> int:
        """Where the L2 tables are."""
        return self.l1_at + self.l1_clusters

    @property
    def data_at(self) -> int:
        """Where the data begin."""
        return self.l2_at + len(self.slots)

    @property
    def clusters(self) -> int:
        """How long the image is."""
        return self.data_at + self.data_clusters


def plan_layout(size: int, runs: BlockRuns) -> Layout:
    """The layout of an image with these runs of a disk of `size` bytes."""
    slots: list[int] = []
    for run in sorted((*runs.data, *runs.zeros)):
        first, last = run.start // ENTRIES, (run.end - 1) // ENTRIES
        slots.extend(range(max(first, slots[-1] + 1) if slots else first, last + 1))
    l1_clusters = max(1, _divide(_divide(size, CLUSTER * ENTRIES), ENTRIES))
    blocks = tables = 1
    while True:
        made = Layout(size, tuple(slots), tables, blocks, l1_clusters, runs.data_clusters)
        needed = _divide(made.clusters, _COUNTS)
        wanted = _divide(needed, ENTRIES)
        if (needed, wanted) <= (blocks, tables):
            return made
        blocks, tables = max(needed, blocks), max(wanted, tables)


def _divide(number: int, by: int) -> int:
    """Rounded up."""
    return -(-number // by)


def render_header(layout: Layout) -> bytes:
    """The first bytes of the image."""
    return _HEADER.pack(
        MAGIC, 3, 0, 0, CLUSTER_BITS, layout.size, 0,
        layout.l1_entries, layout.l1_at << CLUSTER_BITS,
        1 << CLUSTER_BITS, layout.count_tables, 0, 0,
        0, 0, 0, 4, HEADER_BYTES,
    )  # fmt: skip


def render_tables(layout: Layout, runs: BlockRuns) -> Iterator[tuple[int, bytes]]:
    """All else but the data: offsets and bytes, in order. An L2 table is in memory at a time."""
    blocks = range(1 + layout.count_tables, 1 + layout.count_tables + layout.count_blocks)
    yield CLUSTER, _pack(array("Q", (block << CLUSTER_BITS for block in blocks)))
    left = layout.clusters
    for block in blocks:
        yield block << CLUSTER_BITS, b"\0\1" * min(left, _COUNTS)
        left -= min(left, _COUNTS)
    table = array("Q", bytes(8 * layout.l1_entries))
    for number, slot in enumerate(layout.slots):
        table[slot] = (layout.l2_at + number) << CLUSTER_BITS | COPIED
    yield layout.l1_at << CLUSTER_BITS, _pack(table)
    yield from _render_l2(layout, runs)


def _render_l2(layout: Layout, runs: BlockRuns) -> Iterator[tuple[int, bytes]]:
    data, zeros = _Cut(runs.data), _Cut(runs.zeros)
    at = layout.data_at
    for number, slot in enumerate(layout.slots):
        first = slot * ENTRIES
        table = array("Q", bytes(CLUSTER))
        for start, end in data.take(first + ENTRIES):
            for position in range(start - first, end - first):
                table[position] = at << CLUSTER_BITS | COPIED
                at += 1
        for start, end in zeros.take(first + ENTRIES):
            for position in range(start - first, end - first):
                table[position] = ZERO
        yield (layout.l2_at + number) << CLUSTER_BITS, _pack(table)


class _Cut:
    """Runs, handed out up to one boundary after the other."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._next = 0
        self._from = 0

    def take(self, before: int) -> Iterator[tuple[int, int]]:
        """What lies before a cluster, and was not handed out."""
        while self._next < len(self._runs):
            run = self._runs[self._next]
            start = max(run.start, self._from)
            if start >= before:
                return
            yield start, min(run.end, before)
            if run.end > before:
                self._from = before
                return
            self._next += 1


def _pack(table: array[int]) -> bytes:
    if sys.byteorder == "little":
        table.byteswap()
    return table.tobytes()
