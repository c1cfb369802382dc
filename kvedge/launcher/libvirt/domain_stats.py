"""What libvirt's domain has used, as `stats_figures`, and how fast it changes its memory, as QEMU measures it.

Part of the door to libvirt; called by `libvirt_session`, which translates the errors, and by `dirty_sampling`.
"""

from __future__ import annotations

import os
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any, Final

import libvirt

from kvedge.launcher.launcher_errors import DomainMissing
from kvedge.launcher.libvirt.domain_disks import ALIAS, read_disks
from kvedge.launcher.libvirt.domain_nics import read_nics
from kvedge.launcher.libvirt.libvirt_errors import translate_errors
from kvedge.launcher.libvirt.stats_figures import DomainFigures, sort_figures
from kvedge.runtime.linux.process_stat import read_stat

# The host knows these: a QEMU that hangs keeps nobody waiting.
_OF_HOST: Final = libvirt.VIR_DOMAIN_STATS_VCPU | libvirt.VIR_DOMAIN_STATS_INTERFACE
# Where libvirt's answer has it: state, most memory, present memory.
_PRESENT_MEMORY: Final = 2
_OF_QEMU: Final = libvirt.VIR_DOMAIN_STATS_BALLOON | libvirt.VIR_DOMAIN_STATS_BLOCK
# How long QEMU measures.
_SECONDS: Final = 1
_MEBIBYTE: Final = 1 << 20
# Memory that is a file. A look at a page that the guest has never touched would have the host give it one.
_FILES: Final = ("memoryBacking/source", "memoryBacking/access[@mode='shared']")


_NANOSECONDS: Final = 10**9


def read_figures(connection: Any, domain: Any, pid: int, *, ask_qemu: bool) -> DomainFigures:
    """The figures of the running domain, whose QEMU has this number; 0 when nobody knows it.

    Raises:
        DomainMissing: when it does not run.
    """
    if not domain.isActive():
        raise DomainMissing("no guest runs")
    document = ElementTree.fromstring(domain.XMLDesc())
    disks = {disk.target: disk.name for disk in read_disks(document)}
    nics = {nic.tap: nic.name for nic in read_nics(document, ALIAS) if nic.tap}
    groups = _OF_HOST | _OF_QEMU if ask_qemu else _OF_HOST
    # NOWAIT: where another call has the domain, libvirt tells what it can without waiting.
    rows = connection.domainListGetStats([domain], groups, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT)
    found = rows[0][1] if rows else {}
    # Another call may have had the domain all the time: then the groups of QEMU are not there.
    complete = ask_qemu and "balloon.current" in found
    # libvirt has what QEMU has told it last, and asks nobody.
    told = {"balloon.current": domain.info()[_PRESENT_MEMORY], "cpu.affinity": _count_places(domain)}
    return sort_figures(told | _read_cpu(pid) | found, disks, nics, time.time(), complete=complete)


def _read_cpu(pid: int) -> dict[str, int]:
    """What QEMU has used, as libvirt's group CPU_TOTAL has it, in nanoseconds.

    Not by that group: for it libvirt wants to know of caches that the host's CPU can count, and therefore asks each
    QEMU that is installed, of whatever architecture, what it can do: seconds of a CPU and 45 MB, at a guest's first
    look.
    """
    if not pid:
        return {}
    try:
        stat = read_stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return {}
    tick = _NANOSECONDS // os.sysconf("SC_CLK_TCK")
    user, system = stat.user_ticks * tick, stat.system_ticks * tick
    return {"cpu.time": user + system, "cpu.user": user, "cpu.system": system}


def _count_places(domain: Any) -> int:
    """On how many of the host's CPUs each vCPU may run, all together."""
    return sum(sum(places) for places in domain.vcpuPinInfo())


class DomainDirtyRate:
    """The measurements of one domain."""

    def __init__(self, connection: Any, find: Callable[[], Any]) -> None:
        """`find()` is the domain; raises LauncherError."""
        self._connection = connection
        self._find = find

    def begin(self) -> None:
        """Have QEMU measure for a second, and come back at once; nothing is measured where that would take memory.

        Raises:
            LauncherError: when QEMU does not measure.
        """
        domain = self._find()
        with translate_errors("measuring how fast memory changes"):
            document = ElementTree.fromstring(domain.XMLDesc())
            if all(document.find(path) is None for path in _FILES):
                domain.startDirtyRateCalc(_SECONDS, 0)

    def read(self) -> int | None:
        """What was measured last, in bytes a second; None when nothing was, or it still is.

        Raises:
            LauncherError: when libvirt does not tell.
        """
        domain = self._find()
        with translate_errors("reading how fast memory changes"):
            rows = self._connection.domainListGetStats(
                [domain], libvirt.VIR_DOMAIN_STATS_DIRTYRATE, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
            )
        found = rows[0][1] if rows else {}
        rate = found.get("dirtyrate.megabytes_per_second")
        is_measured = found.get("dirtyrate.calc_status") == libvirt.VIR_DOMAIN_DIRTYRATE_MEASURED
        return int(rate) * _MEBIBYTE if is_measured and isinstance(rate, int) and rate >= 0 else None
