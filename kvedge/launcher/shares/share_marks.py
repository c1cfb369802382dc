"""The marks by which the containers of shared directories and the launcher know of each other: locked files.

Used by both. A lock ends with the process that holds it, however that ends. Each side may write the directory of the
marks, and a daemon that a guest has taken over is not trusted: no link is followed there, and nothing waits. Imports
only what is small.
"""

from __future__ import annotations

import fcntl
import os

LAUNCHER = "launcher"
# Of a text for the VM's user.
LONGEST_REASON = 500
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def hold(path: str, *, wait: bool = False) -> int:
    """Make the mark and lock it; the descriptor that holds it. Without `wait` somebody else may have it.

    Raises:
        OSError: when there is something else.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _OPEN, 0o600)
    # The other side tries it for a moment now and then.
    _lock(descriptor, 0 if wait else fcntl.LOCK_NB)
    return descriptor


def is_held(path: str) -> bool:
    """Whether a living process holds the mark."""
    try:
        descriptor = os.open(path, os.O_RDWR | _OPEN)
    except OSError:
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def write_reason(path: str, reason: str) -> None:
    """Leave a text there, at once."""
    with open(f"{path}.new", "w") as file:
        file.write(reason[:LONGEST_REASON])
    os.rename(f"{path}.new", path)


def read_reason(path: str) -> str:
    """The text that was left there; empty when there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _OPEN)
    except OSError:
        return ""
    try:
        return os.read(descriptor, LONGEST_REASON).decode(errors="replace")
    finally:
        os.close(descriptor)


def _lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
    except BlockingIOError:
        return False
    return True
