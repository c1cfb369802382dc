"""How much of this host's disk the volumes use that lie on it.

Called by `kvedge volume usage`. Looks at the directories and files that PersistentVolumes name, follows no link in
them, and changes nothing.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from msgspec import Struct

from kvedge.resources.types.storage import PersistentVolume

_BLOCK: Final = 512
# A volume of a VM holds one image; others may hold anything.
_MOST_FILES: Final = 100_000


class Usage(Struct, frozen=True):
    """Bytes that are allocated on this host, and of how large files; `partial` when there were too many to count."""

    used: int
    apparent: int
    partial: bool = False


def read_usage(volume: PersistentVolume) -> Usage | None:
    """What a volume uses here; None when it is elsewhere, or may not be looked at."""
    source = volume.spec.local or volume.spec.host_path
    return None if source is None else read_usage_of(source.path)


def read_usage_of(path: str) -> Usage | None:
    """What is at a path; None when it is not here, or may not be looked at."""
    try:
        found = os.stat(path)
        if stat.S_ISBLK(found.st_mode):
            return None
        if stat.S_ISREG(found.st_mode):
            return Usage(found.st_blocks * _BLOCK, found.st_size)
        return _count_below(path)
    except OSError:
        return None


def _count_below(top: str) -> Usage:
    used = apparent = count = 0
    # Raised here: a directory that is not this user's would seem empty.
    os.listdir(top)
    for folder, _, names, directory in os.fwalk(top, follow_symlinks=False):
        del folder
        for name in names:
            count += 1
            if count > _MOST_FILES:
                return Usage(used, apparent, partial=True)
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            used += found.st_blocks * _BLOCK
            apparent += found.st_size
    return Usage(used, apparent)


def bytes_text(count: int) -> str:
    """A number of bytes for people: 512 MiB, 1.5 GiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
