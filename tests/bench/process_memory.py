"""Memory and CPU time of processes, as the kernel counts them.

PSS divides a page by the number of processes that map it: the sum over processes is what they take together. On a
machine where other programs map the same libraries it is a little less than it would be alone; `unshared` is what only
these processes hold, whatever else runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psutil

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Memory:
    """Sums over some processes, in MB (10^6 bytes)."""

    pss: float = 0.0
    unshared: float = 0.0
    rss: float = 0.0

    def __add__(self, other: Memory) -> Memory:
        return Memory(self.pss + other.pss, self.unshared + other.unshared, self.rss + other.rss)


@dataclass(frozen=True, slots=True)
class PodProcesses:
    """What kvedge runs for one VM: what holds its container, the monitor, the launcher; and the VM's QEMU."""

    own: tuple[psutil.Process, ...]
    qemu: tuple[psutil.Process, ...]


def memory_of(processes: Iterable[psutil.Process]) -> Memory:
    """What these processes take together; one that has just ended counts nothing."""
    return sum((_memory(process.pid) for process in processes), Memory())


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """User and system time of these processes and of those of their children that have ended."""
    total = 0.0
    for process in processes:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def pods_of(standalone: int) -> list[PodProcesses]:
    """The containers that a `kvedge standalone` has started: each has a holder, below it the Pod's processes."""
    return [_pod(process) for process in psutil.Process(standalone).children(recursive=True) if _is_holder(process)]


def control_plane(standalone: int) -> list[psutil.Process]:
    """The process of all roles, and what starts containers for it."""
    found = [psutil.Process(standalone)]
    for parent in found:
        found += [child for child in parent.children() if not _is_holder(child)]
    return found


def _is_holder(process: psutil.Process) -> bool:
    try:
        return process.name() == "sleep"
    except psutil.NoSuchProcess:
        return False


def _pod(holder: psutil.Process) -> PodProcesses:
    own, qemu = [], []
    for process, name in _names([holder, *_children(holder)]):
        (qemu if name.startswith("qemu-system") else own).append(process)
    return PodProcesses(tuple(own), tuple(qemu))


def _children(holder: psutil.Process) -> list[psutil.Process]:
    try:
        return holder.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _names(processes: Iterable[psutil.Process]) -> Iterator[tuple[psutil.Process, str]]:
    """Those that have just ended are left out."""
    for process in processes:
        try:
            yield process, process.name()
        except psutil.NoSuchProcess:
            continue


def _memory(pid: int) -> Memory:
    sizes: dict[str, int] = {}
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                key, _, rest = line.partition(":")
                if rest.endswith("kB\n"):
                    sizes[key] = int(rest.split()[0]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        return Memory()
    unshared = sizes.get("Private_Dirty", 0) + sizes.get("Private_Clean", 0)
    return Memory(sizes.get("Pss", 0) / MB, unshared / MB, sizes.get("Rss", 0) / MB)
