"""The CPUs of one box that guests may have for themselves: which Pod has which, and what is left for all others.

Started by the node agent; asked by the Pod loop and the scheduler. Which Pod has which is in the Pods' records, written
before anything of a Pod runs. The file in the kubelet's directory only tells others, as a kubelet's does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Sequence, Set
from pathlib import Path
from typing import Final

import msgspec

from kvedge.resources.names import CPU_MANAGER
from kvedge.resources.types.core import Container, Pod
from kvedge.resources.values.quantities import parse_quantity
from kvedge.runtime.durable_files import write_whole
from kvedge.runtime.linux.cpu_lists import cpu_list_text
from kvedge.runtime.linux.cpu_topology import find_cells, find_online_cpus, group_by_core

log = logging.getLogger(__name__)

STATE_FILE: Final = "cpu_manager_state"
_SETTING: Final = "dedicated-cpus"


class CpuError(Exception):
    """CPUs cannot be had; the text is for the Pod's event."""


Cores = Sequence[Sequence[int]]


def exclusive_cpus(pod: Pod) -> int:
    """How many CPUs a Pod has for itself: one that selects nodes that give some, and asks for whole ones alone.

    Raises:
        QuantityError: when an amount is no quantity.
    """
    if pod.spec.node_selector.get(CPU_MANAGER) != "true":
        return 0
    return sum(map(_whole_cpus, pod.spec.containers))


def _whole_cpus(container: Container) -> int:
    resources = container.resources
    said = resources.limits.get("cpu", 0)
    limit, request = parse_quantity(said), parse_quantity(resources.requests.get("cpu", said))
    return int(limit) if limit == request and limit.denominator == 1 else 0


def choose_cpus(free: Set[int], cells: Sequence[Cores], count: int) -> list[int]:
    """So many of the free CPUs, in one NUMA cell where they fit: whole cores, then those of broken ones.

    `cells` are all of the pool, by core. Fewer are given when there are not so many.
    """
    everywhere = [core for cell in cells for core in cell]
    for cell in (*cells, everywhere):
        there = [[cpu for cpu in core if cpu in free] for core in cell]
        if sum(map(len, there)) >= count:
            # Whole cores come first; of those that are left, broken ones before a whole one is broken.
            whole = [core for core, all_of_it in zip(there, cell, strict=True) if len(core) == len(all_of_it)]
            broken = [core for core, all_of_it in zip(there, cell, strict=True) if len(core) < len(all_of_it)]
            return sorted(_take(whole, broken, count))
    return sorted(free)[:count]


def _take(whole: list[list[int]], broken: list[list[int]], count: int) -> list[int]:
    taken: list[int] = []
    left: list[list[int]] = []
    for core in whole:
        if len(core) <= count - len(taken):
            taken += core
        else:
            left.append(core)
    for core in (*broken, *left):
        taken += core[: count - len(taken)]
    return taken


class CpuPool:
    """The pool; safe for several threads. An empty one gives nobody CPUs, and keeps nobody off any."""

    def __init__(self, pool: Collection[int], state: Path, system: Path | None = None) -> None:
        """`state` is the kubelet's directory; `system` where the kernel tells of CPUs."""
        where = {} if system is None else {"system": system}
        self.pool = frozenset(pool)
        self._online = find_online_cpus(**where)
        self._cells = [group_by_core(cell.cpus & self.pool, **where) for cell in find_cells(**where)]
        if self.pool - {cpu for cell in self._cells for core in cell for cpu in core}:
            self._cells = [group_by_core(self.pool, **where)]
        self._state = state / STATE_FILE
        self._lock = threading.Lock()
        self._in_use: dict[str, tuple[int, ...]] = {}

    def check(self) -> str:
        """What is wrong with the setting on this host; empty when nothing is."""
        if missing := self.pool - self._online:
            return f"{_SETTING}: this host has no CPU {cpu_list_text(missing)}; it has {cpu_list_text(self._online)}"
        if self.pool and self.pool == self._online:
            return f"{_SETTING}: all CPUs of this host are named; leave at least one for everything else"
        return ""

    def adopt(self, uid: str, cpus: Collection[int]) -> None:
        """A Pod of an earlier agent has these CPUs."""
        if not cpus:
            return
        with self._lock:
            self._in_use[uid] = tuple(cpus)
            self._tell()

    def reserve(self, uid: str, count: int) -> list[int]:
        """CPUs for a Pod, which it then has for itself; the same again for a Pod that has them.

        Raises:
            CpuError: when too few are free.
        """
        with self._lock:
            own = self._in_use.get(uid, ())
            if not count or len(own) >= count:
                return list(own)
            free = self._list_free()
            if len(free) < count:
                raise CpuError(
                    f"not enough cpus available to satisfy request: {count} for this guest alone, and {len(free)} of"
                    f" {_SETTING} are free"
                )
            self._in_use[uid] = tuple(choose_cpus(free, self._cells, count))
            self._tell()
            return list(self._in_use[uid])

    def release(self, uid: str) -> None:
        """The Pod is gone: its CPUs are free."""
        with self._lock:
            if self._in_use.pop(uid, None) is not None:
                self._tell()

    def cpuset_of(self, uid: str) -> frozenset[int]:
        """The CPUs that a Pod may run on: its own, else those that nobody has for himself; none for no limit."""
        with self._lock:
            own = self._in_use.get(uid)
            if own is not None:
                return frozenset(own)
            return self._list_shared() if self.pool or self._in_use else frozenset()

    def tell(self) -> None:
        """Write the file anew."""
        with self._lock:
            self._tell()

    def _list_free(self) -> frozenset[int]:
        return (self.pool & self._online) - self._list_used()

    def _list_shared(self) -> frozenset[int]:
        return self._online - self.pool - self._list_used()

    def _list_used(self) -> frozenset[int]:
        return frozenset(cpu for cpus in self._in_use.values() for cpu in cpus)

    def _tell(self) -> None:
        try:
            self._write()
        except OSError as error:
            # It is read to know of the pool, not of who has what.
            log.warning(
                "the CPU manager's state was not written",
                extra={"facts": {"file": str(self._state), "error": str(error)}},
            )

    def _write(self) -> None:
        state = {
            "policyName": "static" if self.pool else "none",
            "defaultCpuSet": cpu_list_text(self._list_shared()) if self.pool else "",
            "entries": {uid: {"pod": cpu_list_text(cpus)} for uid, cpus in sorted(self._in_use.items())},
        }
        write_whole(self._state, msgspec.json.encode(state), durable=False)


def pods_cpus(pods: Iterable[Pod]) -> int:
    """How many CPUs these Pods have for themselves, all together. Raises QuantityError."""
    return sum(map(exclusive_cpus, pods))
