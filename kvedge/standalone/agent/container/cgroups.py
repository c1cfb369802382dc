"""A cgroup for each Pod, in whatever hierarchies this host has: version 2, version 1, or both at once.

Called by the Pod loop, where systemd is not the init (see systemd_scopes). Touches only directories below
`kvedge/<instance>` of each hierarchy. A host where no cgroup can be made still runs VMs; `notes()` then says what is
missing. Being in cgroups of their own also keeps containers alive when systemd stops the unit that started them.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from kvedge.runtime.linux.cpu_lists import CpuListError, cpu_list_text, parse_cpu_list
from kvedge.runtime.mount_table import mount_table, parse_mounts
from kvedge.standalone.agent.container.cgroup_usage import CgroupUsage, read_usage

_PARENT: Final = "kvedge"
# The controllers of version 1 in use; systemd's own hierarchy only says to which service a process belongs.
_USED: Final = frozenset({"memory", "pids", "freezer", "cpu", "cpuacct", "name=systemd"})
# Of version 1 too, where there are CPUs for guests alone: without one a process could join no group that has none set.
_CPUSET: Final = "cpuset"
_V2_CONTROLLERS: Final = ("cpu", "memory", "pids")
# One Pod may have so many processes: the kubelet's default is the node's limit, which is too late.
MOST_PROCESSES: Final = 4096
_PERIOD: Final = 100_000
_ATTEMPTS: Final = 3
# Descriptors that killing a Pod takes.
_AT_ONCE: Final = 128


class CgroupLimits(Struct, frozen=True):
    """What a Pod may take: bytes of memory, thousandths of a CPU as its share and as its limit; 0 for no limit.

    `cpus` are those that it may run on; none for all.
    """

    memory: int = 0
    cpu_request: int = 0
    cpu_limit: int = 0
    cpus: frozenset[int] = frozenset()


class Hierarchy(Struct, frozen=True):
    """One mounted hierarchy; `controllers` is empty for version 2."""

    path: Path
    controllers: frozenset[str]

    @property
    def unified(self) -> bool:
        """Whether it is version 2."""
        return not self.controllers

    @property
    def is_of_cpus(self) -> bool:
        """Whether it is of version 1 and says who runs on which CPUs."""
        return _CPUSET in self.controllers

    def has_groups(self, instance: str) -> bool:
        """Whether an instance of kvedge has groups in it."""
        return (self.path / _PARENT / instance).is_dir()


class Cgroups(Struct):
    """The cgroups of one instance of kvedge, named after its bridge."""

    instance: str
    hierarchies: tuple[Hierarchy, ...] = field(default_factory=lambda: find_hierarchies(mount_table()))
    _problems: dict[str, str] = field(default_factory=dict)

    def create(self, pod: str, limits: CgroupLimits) -> list[str]:
        """Make a Pod's cgroups and set its limits but that of CPU time; the files that a process joins them by."""
        joined = []
        for hierarchy in self.hierarchies:
            folder = hierarchy.path / _PARENT / self.instance / pod
            try:
                _make(hierarchy, folder, with_cpus=bool(limits.cpus))
                _write(folder, [*_settings(hierarchy, limits), *_cpus(hierarchy, limits)])
            except OSError as error:
                self.note_problem(str(hierarchy.path), error.strerror or str(error))
                continue
            joined.append(str(folder / "cgroup.procs"))
        return joined

    def settle(self, pod: str) -> None:
        """A container of the Pod is in its cgroups."""

    def limit_cpu(self, pod: str, limits: CgroupLimits) -> bool:
        """Set the limit of CPU time, when a container of the Pod runs, and its CPUs anew: the pool may have changed.

        Whether it holds: may be repeated.

        Not before: to start a container takes the time of some tenths of a second of a small limit.
        """
        holds = True
        for hierarchy in self.hierarchies:
            try:
                folder = hierarchy.path / _PARENT / self.instance / pod
                if limits.cpus:
                    self._catch_up(pod, hierarchy, folder)
                _write(folder, [*_cpu_limit(hierarchy, limits), *(_cpus(hierarchy, limits) or _all_cpus(folder))])
            except OSError as error:
                self.note_problem(str(hierarchy.path), error.strerror or str(error))
                holds = False
        return holds

    def resize(self, pod: str, limits: CgroupLimits) -> str:
        """Set all limits of a Pod that runs to others; what is in the way, or nothing. May be repeated."""
        for hierarchy in self.hierarchies:
            folder = hierarchy.path / _PARENT / self.instance / pod
            try:
                _write(folder, [*_settings(hierarchy, limits), *_cpu_limit(hierarchy, limits)])
            except OSError as error:
                return f"{folder}: {error.strerror or error}"
        return ""

    def _catch_up(self, pod: str, hierarchy: Hierarchy, folder: Path) -> None:
        """A Pod that is older than the pool of CPUs has no group of theirs yet."""
        is_new = not folder.is_dir() and hierarchy.is_of_cpus
        processes = self.processes(pod) if is_new else frozenset[int]()
        if not folder.is_dir() and not processes:
            return
        _make(hierarchy, folder, with_cpus=True)
        for pid in processes:
            # It has ended meanwhile.
            with suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(pid))

    def cpus_of(self, pod: str) -> frozenset[int]:
        """The CPUs that the kernel lets a Pod run on; none where it is not kept to any."""
        for hierarchy in self.hierarchies:
            if found := read_cpus(hierarchy.path / _PARENT / self.instance / pod):
                return found
        return frozenset()

    def note_problem(self, where: str, what: str) -> None:
        """Remember what does not work, for :meth:`notes`."""
        self._problems[where] = what

    def forget_problem(self, where: str) -> None:
        """Forget what did not work there."""
        self._problems.pop(where, None)

    def remove(self, pod: str) -> None:
        """Remove a Pod's cgroups; its processes must have ended.

        Raises:
            OSError: EBUSY while a process is left in one.
        """
        for hierarchy in self.hierarchies:
            with suppress(FileNotFoundError):
                (hierarchy.path / _PARENT / self.instance / pod).rmdir()

    def remove_all(self) -> None:
        """Remove what is ours and empty."""
        for hierarchy in self.hierarchies:
            top = hierarchy.path / _PARENT / self.instance
            for folder in (*top.glob("*/"), top, top.parent):
                # Not empty: another instance's, or a process that is just ending.
                with suppress(OSError):
                    folder.rmdir()

    def processes(self, pod: str) -> frozenset[int]:
        """The processes in a Pod's cgroups."""
        found: set[int] = set()
        for hierarchy in self.hierarchies:
            with suppress(FileNotFoundError):
                text = (hierarchy.path / _PARENT / self.instance / pod / "cgroup.procs").read_text()
                found.update(int(line) for line in text.split())
        return frozenset(found)

    def pods(self) -> frozenset[str]:
        """Every Pod that has a cgroup."""
        return frozenset(
            path.name
            for hierarchy in self.hierarchies
            for path in (hierarchy.path / _PARENT / self.instance).glob("*/")
        )

    def out_of_memory_kills(self, pod: str) -> int:
        """How many of a Pod's processes the kernel has killed for want of memory."""
        for hierarchy in self.hierarchies:
            name = "memory.events" if hierarchy.unified else "memory.oom_control"
            with suppress(OSError):
                for line in (hierarchy.path / _PARENT / self.instance / pod / name).read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        return int(value)
        return 0

    def usage(self, pod: str) -> CgroupUsage | None:
        """What a Pod's processes have used; None where its cgroups do not tell."""
        return read_usage(hierarchy.path / _PARENT / self.instance / pod for hierarchy in self.hierarchies)

    def notes(self) -> list[str]:
        """What does not work here, for the log and the node's status."""
        found = [f"no cgroup by {path}: {problem}" for path, problem in sorted(self._problems.items())]
        if not self.hierarchies:
            found.append("no cgroup hierarchy is mounted: memory limits of Pods have no effect")
        return found


def read_cpus(folder: Path) -> frozenset[int]:
    """The CPUs that a group was given; none where it has no word in this."""
    try:
        return parse_cpu_list((folder / "cpuset.cpus").read_text())
    except (OSError, CpuListError):
        return frozenset()


def find_hierarchies(text: str, *, with_cpus: bool = False) -> tuple[Hierarchy, ...]:
    """The hierarchies that are of use, from the text of /proc/self/mountinfo; `with_cpus` that of CPUs as well."""
    found: dict[str, Hierarchy] = {}
    wanted = _USED | {_CPUSET} if with_cpus else _USED
    for mount in parse_mounts(text):
        if mount.kind == "cgroup2":
            found.setdefault("", Hierarchy(mount.target, frozenset()))
        elif mount.kind == "cgroup" and (used := mount.options & wanted):
            found.setdefault(",".join(sorted(used)), Hierarchy(mount.target, used))
    return tuple(found.values())


def _make(hierarchy: Hierarchy, folder: Path, *, with_cpus: bool) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            break
        except FileNotFoundError:
            # Another instance has removed the directory that both share, as it was empty at that moment.
            if attempt == _ATTEMPTS - 1:
                raise
    if hierarchy.unified:
        for parent in (hierarchy.path, folder.parent.parent, folder.parent):
            _enable(parent, (*_V2_CONTROLLERS, _CPUSET) if with_cpus else _V2_CONTROLLERS)
    folder.mkdir(exist_ok=True)
    if hierarchy.is_of_cpus:
        for group in (folder.parent.parent, folder.parent, folder):
            _fill_cpuset(group)


def _fill_cpuset(group: Path) -> None:
    """A group of version 1 has nothing at first: it gets what its parent has."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (group / name).exists() and not (group / name).read_text().strip():
            (group / name).write_text((group.parent / name).read_text().strip())


def _enable(folder: Path, controllers: Iterable[str]) -> None:
    """Hand the controllers down; those that version 1 has are not there to be handed."""
    available = (folder / "cgroup.controllers").read_text().split()
    for name in controllers:
        if name in available:
            # Inside a container whose own processes are in this very group, it cannot be done: limits then lack.
            with suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{name}")


def _write(folder: Path, settings: Iterable[tuple[str, str]]) -> None:
    for name, value in settings:
        file = folder / name
        if not file.exists():
            continue
        try:
            file.write_text(value)
        except OSError as error:
            # A value that the kernel does not take must not keep a VM from running, unless it is the user's own.
            if error.errno not in (errno.EINVAL, errno.EPERM, errno.EACCES) or name.startswith("memory"):
                raise


def _settings(hierarchy: Hierarchy, limits: CgroupLimits) -> Iterable[tuple[str, str]]:
    if hierarchy.unified or "pids" in hierarchy.controllers:
        yield "pids.max", str(MOST_PROCESSES)
    # 1024 of version 1 and 100 of version 2 are one CPU's worth.
    if limits.cpu_request and hierarchy.unified:
        yield "cpu.weight", str(max(1, min(10_000, limits.cpu_request * 100 // 1000)))
    elif limits.cpu_request and "cpu" in hierarchy.controllers:
        yield "cpu.shares", str(max(2, limits.cpu_request * 1024 // 1000))
    if limits.memory and hierarchy.unified:
        yield "memory.max", str(limits.memory)
    elif limits.memory and "memory" in hierarchy.controllers:
        yield "memory.limit_in_bytes", str(limits.memory)


def _cpus(hierarchy: Hierarchy, limits: CgroupLimits) -> list[tuple[str, str]]:
    if limits.cpus and (hierarchy.unified or hierarchy.is_of_cpus):
        return [("cpuset.cpus", cpu_list_text(limits.cpus))]
    return []


def _all_cpus(folder: Path) -> list[tuple[str, str]]:
    """There is no pool any more: a group that was kept to some CPUs has those of its parent."""
    if not read_cpus(folder):
        return []
    return [("cpuset.cpus", cpu_list_text(read_cpus(folder.parent)) or "\n")]


def _cpu_limit(hierarchy: Hierarchy, limits: CgroupLimits) -> Iterable[tuple[str, str]]:
    if limits.cpu_limit and hierarchy.unified:
        yield "cpu.max", f"{limits.cpu_limit * _PERIOD // 1000} {_PERIOD}"
    elif limits.cpu_limit and "cpu" in hierarchy.controllers:
        yield "cpu.cfs_quota_us", str(limits.cpu_limit * _PERIOD // 1000)


def kill_all(look: Callable[[], Collection[int]]) -> None:
    """SIGKILL for what is left in a Pod's cgroup after its containers have ended: the processes that `look` finds.

    They are held before it is seen whether they are there: by its number alone another one could be meant, for which
    a Pod that forks without end need only wait.
    """
    found = sorted(look())
    for start in range(0, len(found), _AT_ONCE):
        with ExitStack() as stack:
            held: dict[int, int] = {}
            for pid in found[start : start + _AT_ONCE]:
                # It has ended; a thread, which cannot be held, may have its number.
                with suppress(OSError):
                    held[pid] = os.pidfd_open(pid)
                    stack.callback(os.close, held[pid])
            for pid in held.keys() & look():
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(held[pid], signal.SIGKILL)
