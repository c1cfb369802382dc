"""The disk in one layer of a container disk, as the layer comes in.

Called for layers of a registry and for those in an archive. The layer is a stranger's: its one file below `disk/` is
the disk, nothing else of it is kept, and who opens it checks its digest when it is left without error. Touches nothing
but the stream.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, BinaryIO, Final, cast

from kvedge.storage.decompress import CountedReader, open_decompressed
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.tar_reader import EntryKind, HeaderBudget, TarReader

_DISK: Final = "disk"
# A layer of a disk of 8 TiB.
_LARGEST_LAYER: Final = 16 << 40

Layer = Callable[[ImportProgress], AbstractContextManager[BinaryIO]]


class GivenUp(Exception):
    """The reader has left before the layer's end."""


class LayerDisk:
    """The file below `disk/` of one layer; read once, from its beginning."""

    def __init__(
        self,
        name: str,
        layer: Layer,
        progress: ImportProgress,
        limit: int = _LARGEST_LAYER,
        headers: HeaderBudget | None = None,
    ) -> None:
        """`name` is the image's, for messages; the layer unpacks to no more than `limit` bytes, with such `headers`."""
        self._name = name
        self._limit = limit
        self._headers = headers
        self._plain: CountedReader | None = None
        self._layer = layer
        self._progress = progress
        self._stack = ExitStack()
        self._entries: Iterator[Any] = iter(())
        self._reader: TarReader | None = None

    def begin(self) -> bool:
        """Whether this layer has a disk; it is at its beginning then, and otherwise all is closed."""
        opened = self._stack.enter_context(self._layer(self._progress))
        unpacked = self._stack.enter_context(open_decompressed(opened, _LARGEST_LAYER))
        self._plain = CountedReader(unpacked, self._limit)
        self._reader = TarReader(cast("BinaryIO", self._plain), self._headers)
        self._entries = iter(self._reader)
        if self._next_disk():
            return True
        # What is behind the archive's end is not unpacked. Whoever opened the layer reads it on, for its digest.
        self._stack.close()
        return False

    @property
    def left(self) -> int:
        """How much of `limit` was not unpacked yet."""
        return self._limit if self._plain is None else self._plain.left

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes of the disk."""
        assert self._reader is not None
        return self._reader.read(size)

    def parts(self) -> None:
        """A layer is read from its beginning."""

    def verify(self) -> None:
        """The rest of the layer has no other disk, and all of it is what its digest says."""
        if self._next_disk():
            raise ImportFailure(f"image directory contains more than one file: {self._name}")
        # Checks the digest.
        self._stack.close()

    def close(self) -> None:
        """Read no more. As after an error, nothing is checked."""
        given_up = GivenUp()
        self._stack.__exit__(GivenUp, given_up, None)

    def _next_disk(self) -> bool:
        for entry in self._entries:
            path = os.path.normpath(entry.name).lstrip("/")
            if not path.startswith(f"{_DISK}/") or entry.kind is EntryKind.DIRECTORY:
                continue
            if os.path.basename(path).startswith(".wh."):
                continue
            if entry.kind is not EntryKind.FILE:
                raise ImportFailure(
                    f"{entry.name[:200]!r} of {self._name} is no regular file: put the disk itself there"
                )
            return True
        return False
