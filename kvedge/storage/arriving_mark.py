"""The word beside an image in a claim that it is the unfinished copy of a disk, and no disk.

Written by the launcher that awaits the disk's guest, or copies the disk of its own; read by whoever would use the
image. What a claim holds comes from others: no link is followed.
"""

from __future__ import annotations

import os
from typing import Final

from kvedge.resources.disks.claim_places import IMAGE_FILE, LIVE_IMAGE
from kvedge.storage.beneath import hold_open_beneath

# It holds the UIDs of the VMI whose guest comes, and of the migration by which it does.
ARRIVING: Final = f".{IMAGE_FILE}.arriving"
# The same word of a copy that is complete, until its guest goes on with it; nobody refuses an image for it.
SETTLED: Final = f".{IMAGE_FILE}.arrived"
_LONGEST: Final = 256


def read_arriving(directory: int) -> list[str]:
    """The UIDs of the VMI and of the migration; empty when there is no such word.

    A disk that still comes back from a backup, which its guest may use by the worker's socket alone, is unfinished too.

    Raises:
        OSError: when it cannot be read.
    """
    try:
        with hold_open_beneath(directory, ARRIVING, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as mark:
            return os.read(mark, _LONGEST).decode(errors="replace").split() or ["?"]
    except FileNotFoundError:
        return ["(a restore from a backup)"] if _is_returning(directory) else []


def _is_returning(directory: int) -> bool:
    try:
        os.stat(LIVE_IMAGE, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
