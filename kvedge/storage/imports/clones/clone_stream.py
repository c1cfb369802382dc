"""A disk on its way from a claim to one of another namespace: what holds data, each piece with its place.

Written by the sender, read by the worker that fills the claim, which trusts nothing of it. Holes are not sent, and what
a guest wrote at the begin of its disk is never taken for an image's format. Bounded: pieces of a megabyte, in the order
of their places, within the size that was announced.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.sinks.image_sink import read_up_to
from kvedge.storage.imports.sinks.import_target import ImportTarget, check_fits, data_runs
from kvedge.storage.sparse_file import find_data_extents

PIECE: Final = 1 << 20
_HEAD: Final = struct.Struct(">8sQ")
_MAGIC: Final = b"KVCLONE1"
# Place and length of a piece; the last one is empty and stands at the disk's end.
_FRAME: Final = struct.Struct(">QI")


def read_disk_stream(source: int, size: int, *, block: bool) -> Iterator[bytes]:
    """An opened disk of so many bytes as it is sent.

    Raises:
        ImportFailure: it became shorter.
        OSError: of the claim.
    """
    yield _HEAD.pack(_MAGIC, size)
    # A device does not tell where its data are.
    for start, end in [(0, size)] if block else find_data_extents(source, size):
        position = start
        while position < min(end, size):
            data = os.pread(source, min(PIECE, end - position, size - position), position)
            if not data:
                raise ImportFailure("the source claim's disk became shorter while it was copied: stop what uses it")
            for first, last in data_runs(data):
                yield _FRAME.pack(position + first, last - first) + data[first:last]
            position += len(data)
    yield _FRAME.pack(size, 0)


class CloneSink:
    """Takes a stream into a claim."""

    def __init__(self, target: ImportTarget, progress: ImportProgress) -> None:
        self._target = target
        self._progress = progress
        self._size = 0

    def take(self, stream: BinaryIO) -> None:
        """Read the stream to its end.

        Raises:
            ImportFailure: it is none, or a larger disk than fits.
        """
        magic, size = _HEAD.unpack(_read_exactly(stream, _HEAD.size))
        if magic != _MAGIC:
            raise ImportFailure("what comes is no disk of a claim")
        check_fits(self._target, size)
        self._size = size
        self._target.begin(size)
        self._progress.expect(size)
        reached = 0
        while True:
            position, length = _FRAME.unpack(_read_exactly(stream, _FRAME.size))
            if position < reached or length > PIECE or position + length > size:
                raise ImportFailure("what comes is no disk of a claim: a piece lies outside of it")
            if not length:
                break
            self._target.write(position, _read_exactly(stream, length))
            reached = position + length
            self._progress.reach(reached)
        if position != size:
            raise ImportFailure("the disk ends before its end")

    def finish(self) -> int:
        """Have all on disk; the size of the guest's disk."""
        return self._target.finish(self._size)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._target.discard()


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    data = read_up_to(stream, size)
    if len(data) != size:
        raise ImportFailure("the sender of the disk ended before the disk did")
    return data
