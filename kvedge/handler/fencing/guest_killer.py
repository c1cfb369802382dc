"""Kills all that is left of guests on this node: launchers, monitors and QEMU, without asking anybody.

Called by the fencer. Reads /proc, and sends SIGKILL. A process is judged again once it is held, so that no other one
that has got its number meanwhile is killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.handler.launchers.launcher_remains import find_left

_PROC: Final = Path("/proc")


def kill_left(guests: Mapping[str, str], proc: Path = _PROC) -> int:
    """How many processes of these guests there were, of which each has been sent SIGKILL.

    `guests` are the UIDs of VMIs, each with that of its Pod, which may be empty.
    """
    found = 0
    for pid in find_left(guests, proc):
        found += 1
        with suppress(ProcessLookupError):
            _kill(pid, guests, proc)
    return found


def _kill(pid: int, guests: Mapping[str, str], proc: Path) -> None:
    held = os.pidfd_open(pid)
    try:
        if any(left == pid for left in find_left(guests, proc, only=pid)):
            signal.pidfd_send_signal(held, signal.SIGKILL)
    finally:
        os.close(held)
