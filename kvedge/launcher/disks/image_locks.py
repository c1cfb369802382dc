"""Whether another QEMU has an image open: its locks are looked at before a second one is started in vain.

Called by `claim_disk`. QEMU locks bytes of each image that it opens, by open file description, and refuses an image
that another one has locked: that is what keeps two guests from writing one file. A guest that does not start for this
reason would be a failed run, while one that waits starts by itself. Takes no lock; touches only what it is handed.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final

# struct flock: type, whence, start, length, process.
_FLOCK: Final = struct.Struct("hhqqi4x")
# QEMU's, in block/file-posix.c: a byte for each right that is used, and one for each that is not shared; 1 is to write.
_WRITES: Final = 100 + 1
_KEEPS_WRITERS_OFF: Final = 200 + 1


def is_locked(image: int, *, writes: bool) -> bool:
    """Whether an open image is locked against us, who write it or only read it.

    A file system without such locks says no: QEMU does without them there as well.
    """
    places = (_WRITES, _KEEPS_WRITERS_OFF) if writes else (_WRITES,)
    return any(_is_taken(image, place) for place in places)


def _is_taken(image: int, place: int) -> bool:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    try:
        answer = fcntl.fcntl(image, fcntl.F_OFD_GETLK, asked)
    except OSError:
        return False
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
