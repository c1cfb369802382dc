"""What this node and its Pods use: two looks at counters that only grow, and the time between them.

Called by the API server's worker threads through the node agent, when somebody asks. Nothing is counted while nobody
does: the first question after a while takes a second, later ones compare with the look of the one before. Reads cgroups
and /proc.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from kvedge.runtime.linux.meminfo import read_meminfo
from kvedge.standalone.agent.container.cgroup_usage import CgroupUsage
from kvedge.standalone.apiserver.routes.usage_source import MeasuredUsage, Usage

_PROC: Final = Path("/proc")
# A tick of a counter is a hundredth of a second: less would be guessing.
SHORTEST_SECONDS: Final = 1.0
# An older look would tell of a while that is long over.
LONGEST_SECONDS: Final = 60.0
_SECOND: Final = 10**9
_KIB: Final = 1024
# Of the columns of /proc/stat: idle, and waiting for a disk.
_IDLE: Final = (3, 4)
# A guest's time stands in `user` and `nice`, too.
_COLUMNS: Final = 8


class PodCgroups(Protocol):
    """What is asked of cgroups."""

    def pods(self) -> frozenset[str]:
        """The UIDs of Pods that have any."""

    def usage(self, pod: str) -> CgroupUsage | None:
        """What a Pod has used."""


class Look(Struct, frozen=True):
    """The counters at one time, on the monotonic clock; CPU in nanoseconds."""

    at: float
    node: CgroupUsage
    pods: Mapping[str, CgroupUsage]


def compare(before: Look, after: Look) -> tuple[Usage, dict[str, Usage]]:
    """What the node, and each Pod that was there both times, has used between two looks."""
    seconds = after.at - before.at
    pods = {pod: _rate(before.pods[pod], used, seconds) for pod, used in after.pods.items() if pod in before.pods}
    return _rate(before.node, after.node, seconds), pods


def _rate(before: CgroupUsage, after: CgroupUsage, seconds: float) -> Usage:
    # A cgroup that was made anew counts from 0.
    return Usage(int(max(0, after.cpu - before.cpu) / seconds), after.memory)


class UsageMeter:
    """The last look, and what came of it; from any thread."""

    def __init__(
        self,
        node: str,
        cgroups: PodCgroups,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        proc: Path = _PROC,
    ) -> None:
        self._node = node
        self._cgroups = cgroups
        self._now = now
        self._monotonic = monotonic
        self._sleep = sleep
        self._proc = proc
        self._lock = threading.Lock()
        self._before: Look | None = None
        self._measured: MeasuredUsage | None = None

    def measure(self) -> MeasuredUsage:
        """What is used now.

        Raises:
            OSError: when /proc does not tell.
        """
        with self._lock:
            before, after = self._before, self._look()
            if before is not None and self._measured is not None and after.at - before.at < SHORTEST_SECONDS:
                return self._measured
            if before is None or after.at - before.at > LONGEST_SECONDS:
                self._sleep(SHORTEST_SECONDS)
                before, after = after, self._look()
            node, pods = compare(before, after)
            self._before = after
            self._measured = MeasuredUsage(self._node, self._now(), after.at - before.at, node, pods)
            return self._measured

    def _look(self) -> Look:
        found = {pod: self._cgroups.usage(pod) for pod in self._cgroups.pods()}
        pods = {pod: used for pod, used in found.items() if used is not None}
        return Look(self._monotonic(), read_node(self._proc), pods)


def read_node(proc: Path) -> CgroupUsage:
    """What all of this host has used, from /proc.

    Raises:
        OSError: as the file system has it.
    """
    line = (proc / "stat").read_text().partition("\n")[0]
    ticks = [int(word) for word in line.split()[1 : _COLUMNS + 1]]
    busy = sum(count for column, count in enumerate(ticks) if column not in _IDLE)
    memory = read_meminfo(proc)
    used = memory["MemTotal"] - memory.get("MemAvailable", memory["MemFree"])
    return CgroupUsage(busy * _SECOND // os.sysconf("SC_CLK_TCK"), used * _KIB)
