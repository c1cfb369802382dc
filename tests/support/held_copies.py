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
    begin()
    pid = _stop_copier(place, time.monotonic() + seconds)
    try:
        yield pid
    finally:
        let_go(pid)


def let_go(pid: int) -> None:
    """Let it go on, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _stop_copier(place: str, deadline: float) -> int:
    while time.monotonic() < deadline:
        for entry in Path("/proc").iterdir():
            # A process may end while it is looked at.
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and _is_copier(entry, place):
                    os.kill(int(entry.name), signal.SIGSTOP)
                    return int(entry.name)
    raise AssertionError("no process has copied a disk")


def _is_copier(entry: Path, place: str) -> bool:
    words = (entry / "cmdline").read_bytes().split(b"\0")
    if not words or not words[0].endswith(b"qemu-img") or b"convert" not in words:
        return False
    return any(place.encode() in word for word in words)
