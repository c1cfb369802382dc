"""An image of which any part can be read: a file, or what a server gives by ranges.

Called by whatever has to read an image here and there. Reads what it was made of.
"""

from __future__ import annotations

import os
from typing import Final, Protocol

_SECTOR: Final = 512


class Parts(Protocol):
    """An image; positions and sizes are bytes."""

    size: int

    def read_at(self, position: int, size: int) -> bytes:
        """`size` bytes from there; fewer only at the end."""


class FileParts:
    """An open file."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size

    def read_at(self, position: int, size: int) -> bytes:
        """As pread(2)."""
        return os.pread(self._descriptor, size, position)


class PinnedParts:
    """An image whose first bytes are those that were checked, whatever its server or its file has there later."""

    def __init__(self, head: bytes, parts: Parts) -> None:
        self._head = head
        self._parts = parts
        self.size = parts.size

    def read_at(self, position: int, size: int) -> bytes:
        """`size` bytes from there; fewer only at the end. Of the first bytes, the image itself is never asked."""
        pinned = self._head[position : position + size]
        if len(pinned) == size:
            return pinned
        return pinned + self._parts.read_at(position + len(pinned), size - len(pinned))


class SectorParts:
    """An image that ends with a whole sector: zeros stand for what its last one lacks.

    QEMU's client of NBD counts in sectors. It asks for the rest of an image without the missing bytes, and then waits
    for them (7.2, simple replies), so that a server must not tell it of such a size.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.size = parts.size + -parts.size % _SECTOR

    def read_at(self, position: int, size: int) -> bytes:
        """`size` bytes from there; fewer only at the end."""
        wanted = min(size, max(0, self.size - position))
        held = min(wanted, max(0, self._parts.size - position))
        found = self._parts.read_at(position, held) if held else b""
        # A part that is short for another reason stays short.
        return found + bytes(wanted - held) if len(found) == held else found
