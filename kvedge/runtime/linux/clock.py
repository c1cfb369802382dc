"""Whether the kernel's clock is synchronized. Called by the checks of a host."""

from __future__ import annotations

import ctypes
from typing import Final

from kvedge.runtime.linux.calls import libc

# linux/timex.h
_STA_UNSYNC: Final = 0x0040
_TIMEX_BYTES: Final = 512
_TIMEX_STATUS_OFFSET: Final = 40


def is_clock_synchronized() -> bool | None:
    """What adjtimex(2) says; None when it says nothing."""
    # struct timex: modes, then longs; status is the sixth field, at byte 40 where a long has eight bytes.
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    if ctypes.sizeof(ctypes.c_long) != 8 or libc.adjtimex(buffer) < 0:
        return None
    status = ctypes.c_int.from_buffer(buffer, _TIMEX_STATUS_OFFSET).value
    return not status & _STA_UNSYNC
