"""What libvirt's domain has used, as `stats_figures`.

Part of the door to libvirt; called by `libvirt_session`, which translates the errors.
"""

from __future__ import annotations

import time
import xml.etree.ElementTree as ElementTree
from typing import Any, Final

import libvirt

from kvedge.launcher.launcher_errors import DomainMissing
from kvedge.launcher.libvirt.domain_disks import ALIAS, read_disks
from kvedge.launcher.libvirt.domain_nics import read_nics
from kvedge.launcher.libvirt.stats_figures import DomainFigures, sort_figures

# The host knows these: a QEMU that hangs keeps nobody waiting.
_OF_HOST: Final = (
    libvirt.VIR_DOMAIN_STATS_CPU_TOTAL | libvirt.VIR_DOMAIN_STATS_VCPU | libvirt.VIR_DOMAIN_STATS_INTERFACE
)
# Where libvirt's answer has it: state, most memory, present memory.
_PRESENT_MEMORY: Final = 2
_OF_QEMU: Final = libvirt.VIR_DOMAIN_STATS_BALLOON | libvirt.VIR_DOMAIN_STATS_BLOCK


def read_figures(connection: Any, domain: Any, *, ask_qemu: bool) -> DomainFigures:
    """The figures of the running domain.

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
    memory = {"balloon.current": domain.info()[_PRESENT_MEMORY]}
    return sort_figures(memory | found, disks, nics, time.time(), complete=complete)
