"""How fast a guest changes its memory, as QEMU measures it.

Part of the door to libvirt; made by `libvirt_session`, called by `dirty_sampling`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any, Final

import libvirt

from kvedge.launcher.libvirt.libvirt_errors import translate_errors

_SECONDS: Final = 1
_MEBIBYTE: Final = 1 << 20
# Memory that is a file. A look at a page that the guest has never touched would have the host give it one.
_FILES: Final = ("memoryBacking/source", "memoryBacking/access[@mode='shared']")


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
