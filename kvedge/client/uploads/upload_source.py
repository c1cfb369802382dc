"""What an upload sends: a file of this computer, or bytes that a program makes when they are asked for.

Made by the verbs and by imports, read by `upload_stream`. Reads files.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

_SAMPLE: Final = 1 << 20


class UploadSource(Protocol):
    """So many bytes, which are the same each time that they are read."""

    @property
    def size(self) -> int:
        """How many."""
        ...

    def identity(self) -> str:
        """What tells them from others: a hexadecimal digest."""
        ...

    def open(self) -> BinaryIO:
        """A stream of them that can be set to any place."""
        ...


class FileSource:
    """A file, or a part of one."""

    def __init__(self, path: Path, start: int = 0, size: int | None = None) -> None:
        """`size` is that of the part; without it, all that follows `start`."""
        self._path = path
        self._start = start
        self._size = size

    @property
    def size(self) -> int:
        """How many bytes."""
        return self._path.stat().st_size - self._start if self._size is None else self._size

    def identity(self) -> str:
        """The file's time, and the part's size, its first and its last megabyte, as a digest."""
        size = self.size
        digest = hashlib.sha256(f"{size} {self._path.stat().st_mtime_ns}".encode())
        with self.open() as source:
            digest.update(source.read(_SAMPLE))
            source.seek(max(0, size - _SAMPLE))
            digest.update(source.read(_SAMPLE))
        return digest.hexdigest()

    def open(self) -> BinaryIO:
        """The part as a stream."""
        file = self._path.open("rb")
        return file if self._size is None and not self._start else _part(file, self._start, self.size)


class RangedReader(io.RawIOBase):
    """A stream over bytes that can be had at any place."""

    def __init__(self, size: int, read_at: Callable[[int, int], bytes], close: Callable[[], None]) -> None:
        """`read_at` gets a position and a number of bytes, and may give fewer."""
        super().__init__()
        self._size = size
        self._read_at = read_at
        self._close = close
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on from there."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Up to as many bytes as the buffer has."""
        data = self._read_at(self._position, min(len(buffer), max(0, self._size - self._position)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Close what it reads."""
        if not self.closed:
            self._close()
        super().close()


def _part(file: BinaryIO, start: int, size: int) -> BinaryIO:
    def read_at(position: int, wanted: int) -> bytes:
        file.seek(start + position)
        return file.read(wanted)

    return cast("BinaryIO", RangedReader(size, read_at, file.close))
