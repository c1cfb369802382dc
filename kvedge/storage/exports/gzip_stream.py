"""Disks and archives as gzip, piece by piece: several processors work on one stream, and holes cost nothing.

Called by export_answers.py. Each piece is a member of its own, as RFC 1952 allows and every reader expects: so members
are made side by side, and those of zeros are made once. Memory is a few pieces for each stream.
"""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Final

from kvedge.storage.exports.exported_disk import ExportedDisk

PIECE: Final = 1 << 20
# Zeros are written by members of this size, of 64 KiB each.
_LONG: Final = 64 << 20
# Of one stream: made, or being made, and not sent yet.
_AHEAD: Final = 4
# Downloads wait for the compression more than for the line, and most of a disk's data does not shrink well.
_LEVEL: Final = 1
# With gzip's header and trailer.
_GZIP: Final = 16 + zlib.MAX_WBITS
_ZEROS: Final = bytes(PIECE)

_Part = Callable[[], bytes]


class Compressor:
    """The threads that compress, shared by all streams of an exporter."""

    def __init__(self, threads: int | None = None) -> None:
        """As many threads as there are processors, four at most."""
        count = threads or max(1, min(4, len(os.sched_getaffinity(0))))
        self._pool = ThreadPoolExecutor(count, "export-gzip")

    def close(self) -> None:
        """End the threads; streams that go on fail."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def compress_disk(self, disk: ExportedDisk) -> Iterator[bytes]:
        """A disk as gzip.

        Raises:
            OSError: when it cannot be read.
            EOFError: when it has become shorter.
        """
        return self._send(self._disk_parts(disk))

    def compress_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Pieces of PIECE bytes at most as gzip."""
        return self._send(part for piece in pieces for part in (self._part_of(piece),))

    def _disk_parts(self, disk: ExportedDisk) -> Iterator[_Part]:
        position = 0
        for start, end in disk.find_extents(0):
            # On the grid of pieces, so that what lies between is whole pieces of zeros.
            begin, end = max(position, start - start % PIECE), min(end + -end % PIECE, disk.size)
            yield from _zero_parts(begin - position)
            position = begin
            while position < end:
                piece = disk.read(position, min(PIECE, end - position))
                if not piece:
                    raise EOFError("the disk has become shorter")
                yield self._part_of(piece)
                position += len(piece)
        yield from _zero_parts(disk.size - position)

    def _part_of(self, piece: bytes) -> _Part:
        if piece == _ZEROS:
            return lambda: zero_member(PIECE)
        work: Future[bytes] = self._pool.submit(make_member, piece)
        return work.result

    @staticmethod
    def _send(parts: Iterable[_Part]) -> Iterator[bytes]:
        begun: deque[_Part] = deque()
        is_empty = True
        for part in parts:
            is_empty = False
            begun.append(part)
            if len(begun) > _AHEAD:
                yield begun.popleft()()
        while begun:
            yield begun.popleft()()
        if is_empty:
            yield make_member(b"")


def make_member(data: bytes) -> bytes:
    """One whole member of a gzip stream."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(data) + packer.flush()


@cache
def zero_member(size: int) -> bytes:
    """The member of so many zeros; asked for two sizes only, so that both are kept."""
    packer = zlib.compressobj(zlib.Z_BEST_COMPRESSION, zlib.DEFLATED, _GZIP)
    parts = [packer.compress(_ZEROS) for _ in range(size // PIECE)]
    return b"".join((*parts, packer.flush()))


def _zero_parts(length: int) -> Iterator[_Part]:
    for _ in range(length // _LONG):
        yield lambda: zero_member(_LONG)
    for _ in range(length % _LONG // PIECE):
        yield lambda: zero_member(PIECE)
    if rest := length % PIECE:
        yield lambda: make_member(bytes(rest))
