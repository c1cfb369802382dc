"""A scope of systemd's for each Pod, where systemd is the init and has the whole of cgroup version 2.

There cgroups belong to systemd: a directory made beside its own would not be in `systemctl status`, not in a slice, and
not part of the order in which a host goes down. Everywhere else `cgroups` makes its own. Called by the Pod loop; runs
systemd-run. A Pod that was started before its host had systemd, or by an older kvedge, is found all the same.
"""

from __future__ import annotations

import errno
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import field

from kvedge.runtime.linux.cpu_lists import cpu_list_text
from kvedge.runtime.mount_table import mount_table
from kvedge.standalone.agent.container.cgroup_usage import CgroupUsage, read_usage
from kvedge.standalone.agent.container.cgroups import (
    MOST_PROCESSES,
    CgroupLimits,
    Cgroups,
    find_hierarchies,
    read_cpus,
)

_BOOTED: Final = Path("/run/systemd/system")
# Guests are shut down by this unit when the host goes down: it must have stopped before systemd ends the scopes.
_GUESTS: Final = "kvedge-guests.service"
_PREFIX: Final = "kvedge-pod-"
_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.005


def pod_cgroups(instance: str, *, with_cpus: bool = False) -> Cgroups:
    """Where the Pods of an instance have their cgroups on this host; `with_cpus` when some have CPUs for themselves."""
    table = mount_table()
    hierarchies = find_hierarchies(table, with_cpus=True)
    # Pods of a pool that is no more still have groups by it.
    if not with_cpus and not any(each.is_of_cpus and each.has_groups(instance) for each in hierarchies):
        hierarchies = find_hierarchies(table)
    if _BOOTED.is_dir() and len(hierarchies) == 1 and hierarchies[0].unified:
        return SystemdScopes(instance, hierarchies)
    return Cgroups(instance, hierarchies)


class SystemdScopes(Cgroups):
    """One scope per Pod, in one slice per instance."""

    # A scope lives as long as there is a process in it: this one is, until the Pod's first container is.
    _held: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def slice(self) -> str:
        """The slice's name; a dash in it would mean another level."""
        return f"kvedge-{self.instance.replace('-', '_')}.slice"

    def create(self, pod: str, limits: CgroupLimits) -> list[str]:
        """Have systemd make the Pod's scope with its limits; the file that a process writes its PID to, to join it."""
        scope = self._scope(pod)
        with self._lock:
            if not scope.is_dir():
                self._begin(pod, limits)
        if not scope.is_dir():
            # Better a Pod in a cgroup of our own than none: the problem is told.
            return Cgroups.create(self, pod, limits)
        return [str(scope / "cgroup.procs")]

    def cpus_of(self, pod: str) -> frozenset[int]:
        """The CPUs that the kernel lets a Pod run on; none where it is not kept to any."""
        return read_cpus(self._scope(pod)) or Cgroups.cpus_of(self, pod)

    def settle(self, pod: str) -> None:
        """A container of the Pod runs: nobody else need keep its scope."""
        with self._lock:
            held = self._held.pop(pod, None)
        if held is not None:
            held.communicate(timeout=_SECONDS)

    def limit_cpu(self, pod: str, limits: CgroupLimits) -> bool:
        """As :meth:`Cgroups.limit_cpu`, by systemd, which would take back what another one writes into its scope."""
        scope = self._scope(pod)
        if not scope.is_dir():
            return Cgroups.limit_cpu(self, pod, limits)
        properties = cpu_properties(limits)
        if not limits.cpus and read_cpus(scope):
            # There is no pool any more.
            properties.append("AllowedCPUs=")
        problem = _set_properties(scope.name, properties) if properties else ""
        if problem:
            self.note_problem("systemctl", problem)
            return False
        self.forget_problem("systemctl")
        return True

    def resize(self, pod: str, limits: CgroupLimits) -> str:
        """As :meth:`Cgroups.resize`, by systemd."""
        scope = self._scope(pod)
        if not scope.is_dir():
            return Cgroups.resize(self, pod, limits)
        return _set_properties(scope.name, [*scope_properties(limits), *cpu_properties(limits)])

    def remove(self, pod: str) -> None:
        """As :meth:`Cgroups.remove`; systemd removes an empty scope by itself."""
        self.settle(pod)
        if self._scope_processes(pod):
            raise OSError(errno.EBUSY, "processes are left in the scope", str(self._scope(pod)))
        Cgroups.remove(self, pod)

    def processes(self, pod: str) -> frozenset[int]:
        """The processes in a Pod's cgroups."""
        return Cgroups.processes(self, pod) | self._scope_processes(pod)

    def pods(self) -> frozenset[str]:
        """Every Pod that has a cgroup."""
        names = (path.name for path in self._directory.glob(f"{_PREFIX}*.scope"))
        return Cgroups.pods(self) | {name.removeprefix(_PREFIX).removesuffix(".scope") for name in names}

    def out_of_memory_kills(self, pod: str) -> int:
        """How many of a Pod's processes the kernel has killed for want of memory."""
        with suppress(OSError):
            for line in (self._scope(pod) / "memory.events").read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
        return Cgroups.out_of_memory_kills(self, pod)

    def usage(self, pod: str) -> CgroupUsage | None:
        """What a Pod's processes have used; None where its cgroups do not tell."""
        return read_usage([self._scope(pod)]) or Cgroups.usage(self, pod)

    @property
    def _directory(self) -> Path:
        return self.hierarchies[0].path / "kvedge.slice" / self.slice

    def _scope(self, pod: str) -> Path:
        return self._directory / f"{_PREFIX}{pod}.scope"

    def _scope_processes(self, pod: str) -> frozenset[int]:
        try:
            text = (self._scope(pod) / "cgroup.procs").read_text()
        except OSError:
            # Gone, or going at this moment.
            return frozenset()
        held = self._held.get(pod)
        return frozenset(int(line) for line in text.split()) - ({held.pid} if held is not None else set())

    def _begin(self, pod: str, limits: CgroupLimits) -> None:
        unit = f"{_PREFIX}{pod}.scope"
        command = ["systemd-run", "--scope", "--quiet", "--collect", f"--unit={unit}", f"--slice={self.slice}"]
        command += [f"--description=kvedge: Pod {pod}", "--property=Delegate=yes", f"--property=Before={_GUESTS}"]
        command += [f"--property={setting}" for setting in scope_properties(limits)]
        try:
            # It ends when its input does, and so with the agent at the latest.
            held = subprocess.Popen(
                [*command, "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        except OSError as error:
            self.note_problem("systemd-run", error.strerror or str(error))
            return
        deadline = time.monotonic() + _SECONDS
        while not self._has_joined(pod, held.pid) and held.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if self._has_joined(pod, held.pid):
            self._held[pod] = held
            return
        held.kill()
        self.note_problem("systemd-run", held.communicate()[1].decode(errors="replace").strip() or "no answer")

    def _has_joined(self, pod: str, pid: int) -> bool:
        with suppress(OSError):
            return str(pid) in (self._scope(pod) / "cgroup.procs").read_text().split()
        return False


def _set_properties(unit: str, properties: Sequence[str]) -> str:
    """Have systemd set them; what is in the way, or nothing."""
    command = ["systemctl", "set-property", "--runtime", unit, *properties]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
    except subprocess.CalledProcessError as error:
        return error.stderr.decode(errors="replace").strip() or "no answer"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ""


def scope_properties(limits: CgroupLimits) -> list[str]:
    """The limits as systemd.resource-control(5) has them, but that of CPU time."""
    found = [f"TasksMax={MOST_PROCESSES}"]
    if limits.memory:
        found.append(f"MemoryMax={limits.memory}")
    if limits.cpus:
        found.append(_property_of(limits))
    if limits.cpu_request:
        # 100 is one CPU's worth, as in cgroups.
        found.append(f"CPUWeight={max(1, min(10_000, limits.cpu_request * 100 // 1000))}")
    return found


def cpu_properties(limits: CgroupLimits) -> list[str]:
    """The limit of CPU time and the CPUs, of which there may be none."""
    found = [f"CPUQuota={limits.cpu_limit / 10:g}%"] if limits.cpu_limit else []
    return [*found, _property_of(limits)] if limits.cpus else found


def _property_of(limits: CgroupLimits) -> str:
    return f"AllowedCPUs={cpu_list_text(limits.cpus)}"
