"""Room for clusters on this machine: numbers for the nodes of each, and the switch that all of them share.

A node's number decides its addresses, links and control groups, so that clusters with numbers of their own may stand
side by side, made by several processes. Called by whoever makes a cluster; `release` ends it.
"""

from __future__ import annotations

import fcntl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tests.support.cluster.machine_node import BRIDGE, make_bridge, remove_bridge
from tests.support.guest import cache_directory

_SLOTS: Final = 3
# More nodes than any cluster of tests has.
_NUMBERS: Final = 10
_PAUSE: Final = 1.0
# Of root's inotify instances a kernel allows 128, of which a node has fifteen and an API server six: what runs beside
# three clusters would find none. It is a bound, and takes nothing by itself; it stays, as others may need it by then.
_WATCHERS: Final = Path("/proc/sys/fs/inotify/max_user_instances")
_ENOUGH: Final = 1024


@dataclass
class ClusterSlot:
    """One cluster's room: its nodes have numbers after `offset`."""

    offset: int
    _own: IO[str]
    _switch: IO[str]

    def release(self) -> None:
        """Leave it; the last one takes the switch away."""
        with _mutex():
            self._switch.close()
            with _open("switch") as alone:
                if _locked(alone, fcntl.LOCK_EX):
                    remove_bridge()
        self._own.close()


def claim_slot() -> ClusterSlot:
    """A free one; who comes when there is none waits."""
    if int(_WATCHERS.read_text()) < _ENOUGH:
        # In some containers it is not ours to set; then there may be enough, or not.
        with suppress(OSError):
            _WATCHERS.write_text(str(_ENOUGH))
    while True:
        for index in range(_SLOTS):
            own = _open(f"cluster-{index}")
            if _locked(own, fcntl.LOCK_EX):
                return ClusterSlot(index * _NUMBERS, own, _plugged_in())
            own.close()
        time.sleep(_PAUSE)


def _plugged_in() -> IO[str]:
    """Holds the switch, which is made anew where nobody has it, as a run that was killed leaves its own."""
    with _mutex():
        switch = _open("switch")
        if _locked(switch, fcntl.LOCK_EX) or not _has_switch():
            make_bridge()
        # Shared from here on.
        fcntl.flock(switch, fcntl.LOCK_SH)
        return switch


def _has_switch() -> bool:
    return subprocess.run(["ip", "link", "show", BRIDGE], capture_output=True, check=False).returncode == 0


def _locked(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _mutex() -> Iterator[None]:
    with _open("switch-mutex") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _open(name: str) -> IO[str]:
    cache_directory().mkdir(parents=True, exist_ok=True)
    return (cache_directory() / f"{name}.lock").open("w")
