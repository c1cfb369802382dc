"""What the processes of one cgroup have used, of whichever version it is.

Called by cgroups.py and systemd_scopes.py. Only reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

_MICROSECOND: Final = 1000


class CgroupUsage(Struct, frozen=True):
    """Nanoseconds of CPU since the cgroup was made, and the bytes of memory that it holds and cannot give up."""

    cpu: int
    memory: int


def read_usage(folders: Iterable[Path]) -> CgroupUsage | None:
    """What the cgroup has used that these folders are: one of version 2, or some of version 1.

    None when CPU or memory is not told by any of them.
    """
    cpu: int | None = None
    memory: int | None = None
    for folder in folders:
        cpu = _read_cpu(folder) if cpu is None else cpu
        memory = _read_memory(folder) if memory is None else memory
    return CgroupUsage(cpu, memory) if cpu is not None and memory is not None else None


def _read_cpu(folder: Path) -> int | None:
    used = _figures(folder / "cpu.stat").get("usage_usec")
    return used * _MICROSECOND if used is not None else _number(folder / "cpuacct.usage")


def _read_memory(folder: Path) -> int | None:
    """As the kubelet counts it: without what the kernel would give up first."""
    held, cached = _number(folder / "memory.current"), "inactive_file"
    if held is None:
        held, cached = _number(folder / "memory.usage_in_bytes"), "total_inactive_file"
    return None if held is None else max(0, held - _figures(folder / "memory.stat").get(cached, 0))


def _number(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return None


def _figures(file: Path) -> dict[str, int]:
    with suppress(OSError, ValueError):
        pairs = (line.split() for line in file.read_text().splitlines())
        return {name: int(value) for name, value in pairs}
    return {}
