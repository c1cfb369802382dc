"""An image of which any part can be read: a file, or what a server gives by ranges.

Called by whatever has to read an image here and there. Reads what it was made of.
"""

from __future__ import annotations

import os
from typing import Protocol


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
