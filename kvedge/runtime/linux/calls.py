"""The C library, and how a call that failed becomes an OSError; used by the other modules of this folder alone."""

from __future__ import annotations

import ctypes
import os
from typing import Final

libc: Final = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> int:
    """The result of a call of the C library.

    Raises:
        OSError: with errno and `what` when it is negative.
    """
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return result
