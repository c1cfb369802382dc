"""Copies of disks that stand still in the middle, so that something can happen to them: their process is stopped.

For machine tests. A copy takes moments; the process that reads a disk is looked for all the time once it was asked for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def held_copy(begin: Callable[[], object], place: str, seconds: float = 60.0) -> Iterator[int]:
    """The process that copies a disk into something below `place`, stopped, after `begin()`; it goes on in the end."""
    # Many programs may run beside the test, and a look at all of them takes longer than a copy.
    others = _numbers()
    begin()
    pid = _stop_copier(place, others, time.monotonic() + seconds)
    try:
        yield pid
    finally:
        let_go(pid)


def let_go(pid: int) -> None:
    """Let it go on, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _numbers() -> set[str]:
    return {name for name in os.listdir("/proc") if name.isdigit()}


def _stop_copier(place: str, others: set[str], deadline: float) -> int:
    while time.monotonic() < deadline:
        running = _numbers()
        # One that has ended may have left its number to the copier.
        others &= running
        for number in running - others:
            # A process may end while it is looked at.
            with contextlib.suppress(OSError):
                if _is_copier(Path("/proc", number), place):
                    os.kill(int(number), signal.SIGSTOP)
                    return int(number)
    raise AssertionError("no process has copied a disk")


def _is_copier(entry: Path, place: str) -> bool:
    words = (entry / "cmdline").read_bytes().split(b"\0")
    if not words or not words[0].endswith(b"qemu-img") or b"convert" not in words:
        return False
    return any(place.encode() in word for word in words)
