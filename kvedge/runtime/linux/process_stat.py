"""What the kernel says of a process in one line: its state, its beginning, its time on the CPU (proc(5)).

Called by all who look at processes by their numbers: the handler, the node agent and its container starter. The starter
runs for each container, so this imports nothing that Python has not loaded before. Reads /proc.
"""

from __future__ import annotations

import os


class ProcessStat:
    """One line of /proc/PID/stat; a field is taken out of it when it is asked for."""

    __slots__ = ("_fields",)

    def __init__(self, line: bytes) -> None:
        # The name in parentheses may hold anything, other parentheses too. Field 3, the state, comes after it.
        self._fields = line.rpartition(b")")[2].split()

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more: its parent has not asked for its end yet, or is just asking."""
        return self._fields[0] in (b"Z", b"X")

    @property
    def parent(self) -> int:
        """The number of its parent."""
        return int(self._fields[1])

    @property
    def flags(self) -> int:
        """PF_ flags of the kernel's include/linux/sched.h."""
        return int(self._fields[6])

    @property
    def cpu_seconds(self) -> float:
        """What it has used of the CPU, in its own code and in the kernel's."""
        return (self.user_ticks + self.system_ticks) / os.sysconf("SC_CLK_TCK")

    @property
    def user_ticks(self) -> int:
        """What it has used of the CPU in its own code, guests' included, in SC_CLK_TCK of a second."""
        return int(self._fields[11])

    @property
    def system_ticks(self) -> int:
        """What the kernel has used for it, likewise."""
        return int(self._fields[12])

    @property
    def start_time(self) -> int:
        """When it began, in ticks since boot: with its number this names the process for good."""
        return int(self._fields[19])

    @property
    def wait_status(self) -> int:
        """As waitpid(2) has it, once the process has ended; 0 for a reader who may not trace it."""
        return int(self._fields[49])


def read_stat(pid: int) -> ProcessStat:
    """The line of one process; with its end the number may become that of another one.

    Raises:
        FileNotFoundError: no process has that number.
        ProcessLookupError: it has ended meanwhile.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        return ProcessStat(file.read())
