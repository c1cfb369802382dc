"""Which blocks of a disk are there, on stable storage: a file beside the image, with a bit for each block.

Kept by a live disk. A bit goes from 0 to 1 once, and is written only when its block is on disk: a write that a power
cut tears leaves bits out, whose blocks are read from the backup again. Touches this one file.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from kvedge.resources.disks.claim_places import LIVE_IMAGE
from kvedge.storage.sparse_file import write_all

LIVE_MAP: Final = f"{LIVE_IMAGE}.map"

BLOCK: Final = 1 << 20
_FORMAT: Final = 1
_HEAD: Final = 4096
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = f"{LIVE_MAP}.new"


class LiveFacts(Struct, frozen=True):
    """Which disk it is: its size, restic's number of what it comes from, and the UID of its claim."""

    size: int
    content: str
    uid: str


class MapUnusable(Exception):
    """The file is not the map of this disk."""


class BlockMap:
    """The map of one disk; not for several threads."""

    def __init__(self, folder: int, disk: LiveFacts) -> None:
        """Open that of a disk.

        Raises:
            MapUnusable: when it is another disk's, or damaged.
            OSError: when it cannot be read.
        """
        self.count = -(-disk.size // BLOCK)
        self._file = os.open(LIVE_MAP, _FLAGS, dir_fd=folder)
        try:
            length = _count_bytes(disk.size)
            found = os.fstat(self._file)
            if not stat.S_ISREG(found.st_mode) or found.st_size != _HEAD + length:
                raise MapUnusable("its length is not that of the disk's map")
            if _read_head(self._file) != _head(disk):
                raise MapUnusable("it is the map of another disk")
            self._bits = bytearray(os.pread(self._file, length, _HEAD))
            if len(self._bits) != length:
                raise MapUnusable("it is shorter than it says")
        except BaseException:
            os.close(self._file)
            raise
        self.present = sum(1 for block in range(self.count) if self.has(block))

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def has(self, block: int) -> bool:
        """Whether a block is there."""
        return bool(self._bits[block >> 3] >> (block & 7) & 1)

    def add(self, blocks: Iterable[int]) -> None:
        """Note on stable storage that these are there, which they are already. Raises OSError; then none counts."""
        new = sorted({block for block in blocks if not self.has(block)})
        if not new:
            return
        first, last = new[0] >> 3, new[-1] >> 3
        part = self._bits[first : last + 1]
        for block in new:
            part[(block >> 3) - first] |= 1 << (block & 7)
        write_all(self._file, _HEAD + first, bytes(part))
        os.fdatasync(self._file)
        # Readers in other threads ask without a lock: one byte at a time is exchanged.
        self._bits[first : last + 1] = part
        self.present += len(new)


def read_content(folder: int) -> str:
    """What the disk in this directory comes from, by its map; empty when it has none."""
    try:
        opened = os.open(LIVE_MAP, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return ""
    try:
        head = _read_head(opened)
        return str(head.get("content", "")) if isinstance(head, dict) else ""
    finally:
        os.close(opened)


def make_map(folder: int, disk: LiveFacts) -> None:
    """A map of a disk of which nothing is there; it has its name when it is on disk. Raises OSError."""
    for name in (_NEW, LIVE_MAP):
        _remove(folder, name)
    made = os.open(_NEW, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        head = json.dumps(_head(disk)).encode()
        write_all(made, 0, head + bytes(_HEAD - len(head)))
        os.ftruncate(made, _HEAD + _count_bytes(disk.size))
        os.fsync(made)
    finally:
        os.close(made)
    os.rename(_NEW, LIVE_MAP, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def remove_map(folder: int) -> None:
    """All blocks are there and nobody asks any more."""
    _remove(folder, LIVE_MAP)


def _count_bytes(size: int) -> int:
    return -(-size // (8 * BLOCK))


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _head(disk: LiveFacts) -> dict[str, Any]:
    return {"format": _FORMAT, "size": disk.size, "block": BLOCK, "content": disk.content, "claim": disk.uid}


def _read_head(file: int) -> object:
    try:
        return json.loads(os.pread(file, _HEAD, 0).rstrip(b"\0"))
    except ValueError:
        return None
