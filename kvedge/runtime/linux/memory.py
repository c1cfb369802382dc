"""What a process may say about its own memory. Called where a role or a launcher has started; each call is a hint."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

from kvedge.runtime.linux.calls import libc

_MADV_DONTNEED: Final = 4
_M_ARENA_MAX: Final = -8


def trim_allocations() -> None:
    """Return free memory to the kernel; nothing happens with a C library that cannot."""
    trim = getattr(libc, "malloc_trim", None)
    if trim is not None:
        trim(0)


def limit_arenas(count: int) -> None:
    """Let threads share so many allocation arenas; before threads start. Nothing happens where there are none."""
    mallopt = getattr(libc, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, count)


def be_first_to_end() -> None:
    """Have the kernel choose this process, and what it starts, when memory is short; it may have to do without."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def forget_pages(start: int, end: int) -> None:
    """Let go of the pages of a mapping; of a file's they are read again as they are used."""
    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)
