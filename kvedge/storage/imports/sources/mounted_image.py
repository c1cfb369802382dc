"""A container disk that is mounted in the worker's Pod as a source: the node has pulled it, or had it already.

Called by the import's run. So a box without a network fills claims from the images of its own store, and an image that
guests boot from is not fetched a second time. The tree is hostile: the disk is opened beneath it, without following
links. Reads the image alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kvedge.resources.types.import_job import ImageSource
from kvedge.storage.beneath import hold_directory, open_regular
from kvedge.storage.container_disk import ContainerDiskError, find_disk_at
from kvedge.storage.imports.image_parts import FileParts, Parts
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress

_LARGEST_READ: Final = 1 << 20


class MountedDisk:
    """The disk of an image, from its beginning."""

    def __init__(self, source: ImageSource, tree: Path, progress: ImportProgress) -> None:
        self._progress = progress
        self._position = 0
        try:
            with hold_directory(tree) as root:
                self._file = open_regular(root, find_disk_at(root).path)
        except ContainerDiskError as error:
            raise ImportFailure(f"Unable to process data: image {source.name[:200]}: {error}") from error
        self._size = os.fstat(self._file).st_size
        progress.expect(self._size)

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; empty at the end."""
        wanted = _LARGEST_READ if size < 0 else min(size, _LARGEST_READ)
        data = os.pread(self._file, wanted, self._position)
        self._position += len(data)
        self._progress.reach(self._position)
        return data

    def parts(self) -> Parts:
        """Any part of it: it is a file."""
        return FileParts(self._file, self._size)

    def verify(self) -> None:
        """The node checked the image when it came."""

    def close(self) -> None:
        """Let go of the image."""
        os.close(self._file)
