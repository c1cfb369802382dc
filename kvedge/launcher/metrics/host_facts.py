"""What the kernel tells of this host: processors, their time, memory, swapping.

Called by `metrics_report`'s users. Reads /proc and /sys, which in a Pod tell of the host; the parsers are pure. What
cannot be read is left out.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kvedge.runtime.linux.meminfo import parse_meminfo

# Of one file: /proc/stat of a host with a thousand CPUs is a third of it.
_LARGEST: Final = 1 << 20
_WANTED_PAGES: Final = ("pswpin", "pswpout")


@dataclass(frozen=True, slots=True)
class HostFacts:
    """`sockets` is 0 and `cpu_seconds` below 0 when they are not known; memory and swapping are in KiB, by the kernel's
    names.
    """

    sockets: int = 0
    cpu_seconds: float = -1.0
    memory: Mapping[str, int] = field(default_factory=dict)
    swapped: Mapping[str, int] = field(default_factory=dict)


def read_host_facts(proc: str = "/proc", sys: str = "/sys") -> HostFacts:
    """The facts of this moment."""
    places = glob.glob(f"{glob.escape(sys)}/devices/system/cpu/cpu[0-9]*/topology/physical_package_id")
    return HostFacts(
        sockets=len({_read(place).strip() for place in places} - {""}),
        cpu_seconds=parse_cpu_seconds(_read(f"{proc}/stat"), os.sysconf("SC_CLK_TCK")),
        memory=parse_meminfo(_read(f"{proc}/meminfo")),
        swapped=parse_swapped(_read(f"{proc}/vmstat"), os.sysconf("SC_PAGE_SIZE")),
    )


def parse_cpu_seconds(text: str, ticks: int) -> float:
    """User, nice and system time of all CPUs; below 0 when it is not there."""
    words = text.partition("\n")[0].split()
    numbers = words[1:4]
    if words[:1] != ["cpu"] or len(numbers) < 3 or not all(word.isdecimal() for word in numbers):
        return -1.0
    return sum(map(int, numbers)) / ticks


def parse_swapped(text: str, page_bytes: int) -> dict[str, int]:
    """What came in and went out since the host started, in KiB, by the names of /proc/vmstat."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name in _WANTED_PAGES and value.isdecimal():
            found[name] = int(value) * page_bytes // 1024
    return found


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read(_LARGEST)
    except OSError:
        return ""
