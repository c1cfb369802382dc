"""What is read of an image's archive as it comes in: the stream, one member, the documents that were kept.

Called by `streamed_archive`. Touches nothing but the stream.
"""

from __future__ import annotations

import hashlib
import io
import os
from typing import BinaryIO, Final

from kvedge.storage.image_errors import BadImage
from kvedge.storage.tar_reader import TarReader

_CHUNK: Final = 1 << 20


class ForwardStream:
    """A stream that can only go on, and does not after an error: who passes over a broken layer meets it again."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._error: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        if self._error is not None:
            raise self._error
        try:
            return self._stream.read(size)
        except Exception as error:
            self._error = error
            raise

    def seekable(self) -> bool:
        """Never."""
        return False


class ArchiveMember:
    """A member of the archive, as it is stored."""

    def __init__(self, reader: TarReader, begin: bytes, *, hashes: bool) -> None:
        """`begin` was read already."""
        self._reader = reader
        self._begin = begin
        self._found = hashlib.sha256() if hashes else None

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        size = _CHUNK if size < 0 else size
        data, self._begin = self._begin[:size], self._begin[size:]
        data = data or self._reader.read(size)
        if self._found is not None:
            self._found.update(data)
        return data

    def digest(self) -> str:
        """Of all that was read."""
        assert self._found is not None
        return f"sha256:{self._found.hexdigest()}"


class KeptDocuments:
    """The documents of an archive that was read to its end."""

    def __init__(self, found: dict[str, bytes]) -> None:
        self._found = found

    def names(self) -> frozenset[str]:
        """All of them."""
        return frozenset(self._found)

    def open(self, name: str) -> BinaryIO:
        """One of them.

        Raises:
            BadImage: when it was not kept.
        """
        data = self._found.get(os.path.normpath(name))
        if data is None:
            raise lacks(name)
        return io.BytesIO(data)


def lacks(name: str) -> BadImage:
    """The error for a member that an archive names and does not have."""
    return BadImage(f"the archive lacks {name[:256]}", "it may be a broken download: get it again")
