"""Locks by flock(2), as others see them.

Called by whoever wants to know whether the program that holds a file still runs. Takes the lock for a moment.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def is_locked(path: Path) -> bool:
    """Whether somebody holds the file.

    Raises:
        OSError: when it cannot be opened, as FileNotFoundError when there is none.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
