"""UEFI's variables of a guest that has come, written to their file before the guest runs.

Called by `incoming_guest`. The file is QEMU's: it is written in place, with the bytes that QEMU itself writes when the
guest goes on, so that it does not matter which of the two is first.
"""

from __future__ import annotations

import os
from pathlib import Path

from kvedge.runtime.durable_files import sync
from kvedge.storage.sparse_file import write_all


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
            write_all(opened, 0, variables)
        # What QEMU has written may not have reached the storage either.
        os.fsync(opened)
    finally:
        os.close(opened)
    sync(Path(path).parent)
    return is_other
