"""UEFI's variables of a guest that has come, written to their file before the guest runs.

Called by `incoming_guest`. The file is QEMU's: it is written in place, with the bytes that QEMU itself writes when the
guest goes on, so that it does not matter which of the two is first.
"""

from __future__ import annotations

import os


def keep_variables(path: str, variables: bytes) -> bool:
    """Have the file hold these bytes, on stable storage; whether it held others. May be repeated.

    Raises:
        OSError: when it cannot be written, or has another size.
    """
    opened = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if os.fstat(opened).st_size != len(variables):
            raise OSError(f"{path} has {os.fstat(opened).st_size} bytes, and {len(variables)} are to be in it")
        is_other = os.pread(opened, len(variables), 0) != variables
        if is_other:
            _write_all(opened, variables)
        # What QEMU has written may not have reached the storage either.
        os.fsync(opened)
    finally:
        os.close(opened)
    _sync_directory(os.path.dirname(path))
    return is_other


def _write_all(opened: int, content: bytes) -> None:
    at = 0
    while at < len(content):
        at += os.pwrite(opened, content[at:], at)


def _sync_directory(path: str) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
