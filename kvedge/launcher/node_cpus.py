"""The CPUs that the node has given to this launcher's Pod: found, and left to the guest.

Called by the preparation of a VMI that has CPUs for itself. Reads /sys and moves processes of the launcher's own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from kvedge.launcher.domain.host_cpus import HostCell, HostCpus
from kvedge.runtime.linux.cpu_lists import MOST_CPUS
from kvedge.runtime.linux.cpu_topology import NEAR, SYSTEM, Cell, find_cells, find_online_cpus, group_by_core

log = logging.getLogger(__name__)


def read_host_cpus(allowed: Collection[int] | None = None, system: Path = SYSTEM) -> HostCpus:
    """The Pod's CPUs by cell and core; a node that does not tell of cells has one, and one core for each CPU.

    Raises:
        OSError: when the kernel does not say which CPUs the Pod has.
    """
    own = find_allowed_cpus() if allowed is None else frozenset(allowed)
    online = find_online_cpus(system) or own
    found = list(find_cells(system))
    if own - frozenset[int]().union(*(cell.cpus for cell in found)):
        found = [Cell(0, own, {0: NEAR})]
    cells = [HostCell(cell.number, group_by_core(cell.cpus & own, system), cell.distances) for cell in found]
    return HostCpus(tuple(cell for cell in cells if cell.cores), len(online))


def find_allowed_cpus() -> frozenset[int]:
    """The CPUs of the Pod's cpuset, in cgroups of either version, also when this process was moved to some of them.

    Raises:
        OSError: when the kernel does not say.
    """
    now = os.sched_getaffinity(0)
    try:
        # The kernel gives a thread those of the CPUs it asks for that its cpuset has.
        os.sched_setaffinity(0, range(MOST_CPUS))
        return frozenset(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, now)


def keep_launcher_to(cpus: Collection[int]) -> None:
    """Have the launcher and its monitor run on these CPUs alone; what they start begins there.

    Called in the launcher's child. A process that cannot be moved stays where it is: the guest runs all the same.
    """
    launcher = os.getppid()
    # In a Pod the first process is the monitor. Elsewhere it is none of ours.
    monitor = [1] if os.getuid() and _parent_of(launcher) == 1 else []
    for pid in (os.getpid(), launcher, *monitor):
        try:
            for thread in _threads(pid):
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, cpus)
        except OSError as error:
            facts = {"pid": pid, "error": error.strerror}
            log.warning("a process of the launcher stays on the guest's CPUs", extra={"facts": facts})


def _threads(pid: int) -> Iterator[int]:
    """All of them: a thread that was made while the others were looked at has its maker's CPUs, old or new."""
    seen: set[int] = set()
    while new := {int(name) for name in os.listdir(f"/proc/{pid}/task")} - seen:
        seen |= new
        yield from new


def _parent_of(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
