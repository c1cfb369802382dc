"""Writing and copying files so that runs of zeros take no space.

Called when disks are imported and layers unpacked. Touches the descriptors it is given.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Final

# The piece that is compared with zeros; a multiple of every file system's block.
_BLOCK: Final = 64 << 10
_ZEROS: Final = bytes(_BLOCK)
_CHUNK: Final = 1 << 20
# ioctl of linux/fs.h: share the blocks of another file, on file systems that can (XFS, btrfs).
_FICLONE: Final = 0x40049409

Progress = Callable[[int, int], None]


def ignore_progress(done: int, total: int) -> None:
    """For callers that show none."""


def write_sparse(into: int, read: Callable[[int], bytes], size: int) -> None:
    """Write `size` bytes that come from `read` at the start of an empty file, leaving holes for zeros.

    Raises:
        EOFError: when `read` ends before.
    """
    position = 0
    while position < size:
        chunk = read(min(_CHUNK, size - position))
        if not chunk:
            raise EOFError
        write_blocks(into, position, chunk)
        position += len(chunk)
    os.ftruncate(into, size)


def write_blocks(into: int, position: int, data: bytes) -> None:
    """Write those blocks of `data` that are not all zero."""
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        if not _is_zero(block):
            write_all(into, position + start, block)


def copy_with_digest(source: int, into: int, progress: Progress = ignore_progress) -> str:
    """Copy a file into one without content, sharing blocks where the file system can; returns a sha256 of the content.

    The digest is over the size and each block that is not zero with its position, so that it does not depend on where
    the source has holes, and holes cost nothing.
    """
    size = os.fstat(source).st_size
    shared = share_blocks(source, into)
    digest = hashlib.sha256(size.to_bytes(8, "big"))
    for start, end in find_data_extents(source, size):
        # Extents begin anywhere; the digest needs one grid.
        position = start - start % _BLOCK
        while position < end:
            chunk = os.pread(source, min(_CHUNK, end - position), position)
            if not chunk:
                break
            _digest_blocks(digest.update, position, chunk)
            if not shared:
                write_blocks(into, position, chunk)
            position += len(chunk)
            progress(min(position, size), size)
    os.ftruncate(into, size)
    progress(size, size)
    return digest.hexdigest()


def _digest_blocks(update: Callable[[bytes], None], position: int, data: bytes) -> None:
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        if not _is_zero(block):
            update((position + start).to_bytes(8, "big"))
            update(block)


def _is_zero(block: bytes) -> bool:
    # A comparison ends at the first difference, which a count does not.
    return block == (_ZEROS if len(block) == _BLOCK else bytes(len(block)))


def share_blocks(source: int, into: int) -> bool:
    """Have a file share the blocks of another one (a reflink); False where the file system cannot."""
    try:
        fcntl.ioctl(into, _FICLONE, source)
    except OSError:
        # Another file system, or one without shared blocks: the content is copied instead.
        return False
    return True


def find_data_extents(source: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that hold data, merged so that no block of the grid comes twice."""
    position = 0
    while position < size:
        try:
            start = os.lseek(source, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = min(os.lseek(source, start, os.SEEK_HOLE), size)
        # To the end of the block, so that the next extent begins after it.
        end = min(end + -end % _BLOCK, size)
        yield max(start, position), end
        position = end


def write_all(into: int, position: int, data: bytes) -> None:
    """Write all of it there."""
    view = memoryview(data)
    while view:
        written = os.pwrite(into, view, position)
        view = view[written:]
        position += written
