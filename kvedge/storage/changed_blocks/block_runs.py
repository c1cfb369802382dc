"""Runs of clusters of a disk: which have changed, which hold data, and which of them a backup takes.

Called by backup_worker.py. Pure. Every list is sorted, without overlaps, and bounded: where a disk is in too many
pieces, neighbours are joined, and what lies between them is taken as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

CLUSTER_BITS: Final = 16
CLUSTER: Final = 1 << CLUSTER_BITS
# 4 MiB of pairs; a guest that writes every other cluster of a disk of terabytes gets no more.
MOST_RUNS: Final = 1 << 16


class Run(NamedTuple):
    """Clusters from `start` to before `end`."""

    start: int
    end: int


class BlockRuns(NamedTuple):
    """What a backup takes of a disk: clusters with data, and clusters that read as zeros."""

    data: tuple[Run, ...]
    zeros: tuple[Run, ...] = ()

    @property
    def data_clusters(self) -> int:
        """How many clusters are copied."""
        return sum(run.end - run.start for run in self.data)


def join_extents(extents: Iterable[tuple[int, int]], most: int = MOST_RUNS) -> tuple[Run, ...]:
    """The clusters that extents (offset and length, in order) touch, in at most so many runs."""
    runs: list[Run] = []
    gap = 0
    for offset, length in extents:
        if length <= 0:
            continue
        start, end = offset >> CLUSTER_BITS, (offset + length - 1 >> CLUSTER_BITS) + 1
        if runs and start <= runs[-1].end + gap:
            runs[-1] = Run(runs[-1].start, max(end, runs[-1].end))
            continue
        runs.append(Run(start, end))
        while len(runs) > most:
            # Each round doubles it: the work stays in proportion to the extents.
            gap = gap * 2 + 1
            runs = _join(runs, gap)
    return tuple(runs)


def _join(runs: list[Run], gap: int) -> list[Run]:
    joined = [runs[0]]
    for run in runs[1:]:
        if run.start <= joined[-1].end + gap:
            joined[-1] = Run(joined[-1].start, run.end)
        else:
            joined.append(run)
    return joined


def choose_runs(data: tuple[Run, ...], changed: tuple[Run, ...] | None) -> BlockRuns:
    """What is taken: all data of a full backup, where `changed` is None; otherwise the changes, data or not."""
    if changed is None:
        return BlockRuns(data)
    taken: list[Run] = []
    zeros: list[Run] = []
    position = 0
    for run in changed:
        at = run.start
        while position < len(data) and data[position].end <= at:
            position += 1
        look = position
        while look < len(data) and data[look].start < run.end:
            piece = Run(max(at, data[look].start), min(run.end, data[look].end))
            if piece.start > at:
                zeros.append(Run(at, piece.start))
            taken.append(piece)
            at = piece.end
            look += 1
        if at < run.end:
            zeros.append(Run(at, run.end))
    return BlockRuns(tuple(taken), tuple(zeros))
