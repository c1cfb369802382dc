"""The word beside an image in a claim that it is the unfinished copy of a disk, and no disk.

Written by the launcher that awaits the disk's guest, or copies the disk of its own; read by whoever would use the
image. What a claim holds comes from others: no link is followed.
"""

from __future__ import annotations

import os
from typing import Final

from kvedge.resources.disks.claim_places import IMAGE_FILE
from kvedge.storage.beneath import hold_open_beneath

# It holds the UIDs of the VMI whose guest comes, and of the migration by which it does.
ARRIVING: Final = f".{IMAGE_FILE}.arriving"
# The same word of a copy that is complete, until its guest goes on with it; nobody refuses an image for it.
SETTLED: Final = f".{IMAGE_FILE}.arrived"
_LONGEST: Final = 256


def read_arriving(directory: int) -> list[str]:
    """The UIDs of the VMI and of the migration; empty when there is no such word.

    Raises:
        OSError: when it cannot be read.
    """
    try:
        with hold_open_beneath(directory, ARRIVING, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as mark:
            return os.read(mark, _LONGEST).decode(errors="replace").split() or ["?"]
    except FileNotFoundError:
        return []
