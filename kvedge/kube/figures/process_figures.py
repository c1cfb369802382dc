"""All that a process with roles in it tells of itself: queues, calls, streams, states of roles, use of its host.

Called by the api role of itself, and by a handler's relay for the api role. Reads /proc/self.
"""

from __future__ import annotations

import os
import resource
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.kube.figures.queue_figures import tell_queues
from kvedge.kube.figures.rest_figures import REST_FIGURES
from kvedge.kube.figures.stream_figures import STREAM_FIGURES
from kvedge.kube.figures.vmi_figures import VMI_FIGURES
from kvedge.resources.usage.role_stats import RoleStats

# By this an api role knows what two ways of asking have in common: handler and api role are often one process.
_PROCESS: Final = uuid.uuid4().hex
_SELF: Final = Path("/proc/self")
_STAT: Final = Path("/proc/stat")
# In /proc/self/stat, after the name of the program, which may hold anything: when it began, in ticks since the boot.
_STARTED: Final = 19
CONTROLLER_LEADS: Final = "controller-leads"
CONTROLLER_READY: Final = "controller-ready"
# QEMU knows some dozens.
_MOST_MACHINES: Final = 256
_states: dict[str, Callable[[], bool]] = {}
_machines: list[str] = []


def register_state(name: str, holds: Callable[[], bool]) -> None:
    """Tell of a role's state from now on; `holds` is asked from any thread."""
    _states[name] = holds


def forget_state(name: str) -> None:
    """The role has stopped."""
    _states.pop(name, None)


def note_deprecated_machines(names: Sequence[str]) -> None:
    """The machine types of this node that its QEMU means to give up, instead of those before."""
    _machines[:] = names[:_MOST_MACHINES]


def tell_process() -> RoleStats:
    """All of it."""
    return RoleStats(
        process=_PROCESS,
        figures=read_figures(_SELF, _STAT),
        states={name: holds() for name, holds in list(_states.items())},
        queues=tell_queues(),
        calls=REST_FIGURES.tell_calls(),
        latencies=REST_FIGURES.tell_latencies(),
        streams=STREAM_FIGURES.tell(),
        transitions=VMI_FIGURES.tell_transitions(),
        syncs=VMI_FIGURES.tell_rounds(),
        panics=VMI_FIGURES.tell_panics(),
        deprecated_machines=list(_machines),
    )


def read_figures(own: Path, stat: Path) -> dict[str, float]:
    """What the process uses, by the names that Prometheus' clients have for it; what cannot be read is left out."""
    found: dict[str, float] = {}
    with suppress(OSError, ValueError, IndexError):
        size, resident = (int(word) for word in (own / "statm").read_text().split()[:2])
        page = os.sysconf("SC_PAGE_SIZE")
        found["process_virtual_memory_bytes"] = size * page
        found["process_resident_memory_bytes"] = resident * page
    with suppress(OSError):
        found["process_open_fds"] = len(os.listdir(own / "fd"))
    with suppress(OSError, ValueError, IndexError):
        words = (own / "stat").read_text().rpartition(")")[2].split()
        booted = next(line.split()[1] for line in stat.read_text().splitlines() if line.startswith("btime "))
        found["process_start_time_seconds"] = int(booted) + int(words[_STARTED]) / os.sysconf("SC_CLK_TCK")
    used = os.times()
    found["process_cpu_seconds_total"] = used.user + used.system
    found["process_max_fds"] = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return found
