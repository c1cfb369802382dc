"""Putting a small file that cannot be read aside, so that its reader can go on without it.

Called where records below the data directory are read. The file stays beside its place under a name that tells when
it was found; the log and the Node's conditions name it, `kvedge doctor` too, until somebody removes it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kvedge.runtime.durable_files import sync

log = logging.getLogger(__name__)

# A file that is damaged again and again shall not fill the disk.
_MOST_KEPT: Final = 9
_NAME: Final = re.compile(r".+\.damaged-\d{8}T\d{6}Z(\.\d+)?")


def put_aside(path: Path, why: str) -> Path:
    """Rename a damaged file, or a directory that stands in its place; returns where it is now.

    Raises:
        OSError: as the file system has it; it is then where it was.
    """
    aside = _free_name(path, f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    path.rename(aside)
    sync(path.parent)
    log.error("%s is damaged and was put aside as %s: %s", path, aside.name, why)
    return aside


def is_aside(name: str) -> bool:
    """Whether a file's name is one that `put_aside` gave it."""
    return _NAME.fullmatch(name) is not None


def find_damaged_files(directory: Path, depth: int) -> Iterator[Path]:
    """What was put aside in a directory and, so many levels deep, below it."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        # Another program's, or gone meanwhile.
        return
    for entry in entries:
        if is_aside(entry.name):
            yield Path(entry.path)
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from find_damaged_files(Path(entry.path), depth - 1)


def _free_name(path: Path, moment: str) -> Path:
    for number in range(1, _MOST_KEPT + 1):
        aside = path.with_name(f"{path.name}.damaged-{moment}" + (f".{number}" if number > 1 else ""))
        if not aside.exists():
            return aside
    return aside
