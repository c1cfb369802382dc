"""Whether a file's place does O_DIRECT, without which QEMU cannot keep the host's cache out of a disk's way.

Called by those who prepare a disk. Opens the file, and changes nothing.
"""

from __future__ import annotations

import errno
import os


def direct_io_works(path: str) -> bool:
    """Whether the file system of a file does O_DIRECT."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise
    return True
